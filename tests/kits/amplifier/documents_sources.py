"""How the examples of the Module Source Protocol are used, on real files."""

from __future__ import annotations

import inspect
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import mcp_bridge.amplifier as ours
from mcp_bridge.amplifier.testing import TestCoordinator
from tests.kits.amplifier.amplifier_modules import MODULE, write_files
from tests.kits.amplifier.documents_reading import Example
from tests.kits.amplifier.documents_running import run


async def source(example: Example) -> None:
    """Check that the document's source and the package's source satisfy the same protocol."""
    theirs = (await run(example))["ModuleSource"]

    class Fixed(theirs):  # type: ignore[misc,valid-type]
        def resolve(self) -> Path:
            return Path(__file__).parent

    assert isinstance(Fixed(), ours.ModuleSource)
    assert ours.FileSource(Path(__file__).parent).resolve() == Fixed().resolve()
    assert ours.PackageSource("mcp_bridge.amplifier").resolve() == Path(ours.__file__).parent
    assert ours.GitSource("git+https://host/x@main", Path(__file__).parent).resolve() == Fixed().resolve()
    for missing in (ours.FileSource("/no/such"), ours.PackageSource("no-such"), ours.GitSource("git+https://host/x")):
        assert isinstance(missing, ours.ModuleSource)
        assert await _raises(ours.ModuleNotFoundError, missing.resolve)


async def resolver(example: Example) -> None:
    """A resolver of the document has the protocol of this package, and the loader loads its modules."""
    theirs = (await run(example))["ModuleSourceResolver"]
    # This folder is below the temporary folder of the test.
    folder = Path(mkdtemp())

    class Here(theirs):  # type: ignore[misc,valid-type]
        def resolve(self, module_id: str, profile_hint: Any = None) -> ours.ModuleSource:
            return ours.FileSource(write_files(folder, {"here_of_resolver.py": MODULE}) / profile_hint)

    assert isinstance(Here(), ours.ModuleSourceResolver)
    coordinator = TestCoordinator()
    coordinator.mount("module-source-resolver", Here())
    await ours.ModuleLoader(coordinator).load("here", {}, "here_of_resolver.py")
    assert (await coordinator.get("tools", "here").execute({})).output.startswith(str(folder))


async def loader(example: Example) -> None:
    """Check that the document's loader, once completed, takes the same arguments as the package's loader."""
    theirs = (await run(example))["ModuleLoader"]
    modules: list[Any] = []

    class Whole(theirs):  # type: ignore[misc,valid-type]
        async def _load_direct(self, module_id: str, config: Any) -> Any:
            modules.append(module_id)

    coordinator = TestCoordinator()
    await Whole(coordinator).load("tool-bash", {})
    assert modules == ["tool-bash"]
    assert await _raises(ours.ModuleNotFoundError, ours.ModuleLoader(coordinator).load, "tool-none")
    parameters = [str(name) for name in inspect.signature(theirs.load).parameters]
    assert list(inspect.signature(ours.ModuleLoader.load).parameters)[: len(parameters)] == parameters
    assert ours.AmplifierModuleLoader is ours.ModuleLoader


async def mounts(example: Example) -> None:
    """A resolver is used if its mount is not awaited."""
    # This folder is below the temporary folder of the test.
    folder = Path(mkdtemp())
    write_files(folder, {"here_of_mount.py": MODULE})

    class Here:
        def resolve(self, module_id: str, profile_hint: Any = None) -> ours.ModuleSource:
            return ours.FileSource(folder / f"{module_id}.py")

    coordinator = TestCoordinator()
    names = await run(example, coordinator=coordinator, CustomModuleSourceResolver=Here)
    await names["loader"].load("here_of_mount")
    assert isinstance(coordinator.get("tools", "here"), ours.Tool)


async def error(example: Example) -> None:
    """Ours have the documents' names, and are exceptions as theirs are."""
    [theirs] = [value for value in (await run(example)).values() if isinstance(value, type)]
    assert issubclass(getattr(ours, theirs.__name__), Exception)
    assert issubclass(theirs, Exception)


async def custom(example: Example) -> None:
    """Overrides, then the hint, then the default."""
    theirs = (await run(example))["MyCustomResolver"]()
    theirs.overrides = {"mine": "/mine"}
    theirs.parse_profile_hint = ours.FileSource
    assert theirs.resolve("mine") == ours.FileSource("/mine")
    assert theirs.resolve("other", "/hint") == ours.FileSource("/hint")
    assert theirs.resolve("other") == ours.PackageSource("myapp-module-other")
    assert isinstance(theirs, ours.ModuleSourceResolver)


async def _raises(error_type: type[Exception], function: Any, *args: Any) -> bool:
    try:
        answer = function(*args)
        if inspect.isawaitable(answer):
            await answer
    except error_type:
        return True
    return False


USES = {
    "class ModuleSource(Protocol):": source,
    "class ModuleSourceResolver(Protocol):": resolver,
    "class ModuleLoader:": loader,
    "resolver = CustomModuleSourceResolver()": mounts,
    "class ModuleNotFoundError(Exception):": error,
    "class ModuleLoadError(Exception):": error,
    "class MyCustomResolver:": custom,
}
