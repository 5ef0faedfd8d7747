"""Checks of the examples of the Module Source Protocol, on real files; documents_contexts.py explains how they work."""

from __future__ import annotations

import inspect
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import mcp_bridge.amplifier as ours
from mcp_bridge.amplifier.testing import TestCoordinator
from tests.kits.amplifier.amplifier_modules import MODULE, write_files
from tests.kits.amplifier.documents_reading import Example
from tests.kits.amplifier.documents_running import run_example


async def check_source(example: Example) -> None:
    """Check that the document's source and the package's source satisfy the same protocol."""
    theirs = (await run_example(example))["ModuleSource"]

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


async def check_resolver(example: Example) -> None:
    """Check that the loader of this package loads a module through a resolver of the document."""
    theirs = (await run_example(example))["ModuleSourceResolver"]
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


async def check_loader(example: Example) -> None:
    """Check that the document's loader, once completed, takes the same arguments as the package's loader."""
    theirs = (await run_example(example))["ModuleLoader"]
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


async def check_mount(example: Example) -> None:
    """Check that the loader uses a resolver whose `mount` the document does not await."""
    # This folder is below the temporary folder of the test.
    folder = Path(mkdtemp())
    write_files(folder, {"here_of_mount.py": MODULE})

    class Here:
        def resolve(self, module_id: str, profile_hint: Any = None) -> ours.ModuleSource:
            return ours.FileSource(folder / f"{module_id}.py")

    coordinator = TestCoordinator()
    names = await run_example(example, coordinator=coordinator, CustomModuleSourceResolver=Here)
    await names["loader"].load("here_of_mount")
    assert isinstance(coordinator.get("tools", "here"), ours.Tool)


async def check_error(example: Example) -> None:
    """Check that this package has an exception with the name of the document's exception."""
    [documented_error] = [value for value in (await run_example(example)).values() if isinstance(value, type)]
    assert issubclass(documented_error, Exception)
    assert issubclass(getattr(ours, documented_error.__name__), Exception)


async def check_custom_resolver(example: Example) -> None:
    """Check the order of the document's resolver: its overrides, then the hint, then a default."""
    resolver = (await run_example(example))["MyCustomResolver"]()
    resolver.overrides = {"mine": "/mine"}
    resolver.parse_profile_hint = ours.FileSource
    assert resolver.resolve("mine") == ours.FileSource("/mine")
    assert resolver.resolve("other", "/hint") == ours.FileSource("/hint")
    assert resolver.resolve("other") == ours.PackageSource("myapp-module-other")
    assert isinstance(resolver, ours.ModuleSourceResolver)


async def _raises(error_type: type[Exception], function: Any, *args: Any) -> bool:
    try:
        answer = function(*args)
        if inspect.isawaitable(answer):
            await answer
    except error_type:
        return True
    return False


SOURCE_CHECKS = {
    "class ModuleSource(Protocol):": check_source,
    "class ModuleSourceResolver(Protocol):": check_resolver,
    "class ModuleLoader:": check_loader,
    "resolver = CustomModuleSourceResolver()": check_mount,
    "class ModuleNotFoundError(Exception):": check_error,
    "class ModuleLoadError(Exception):": check_error,
    "class MyCustomResolver:": check_custom_resolver,
}
