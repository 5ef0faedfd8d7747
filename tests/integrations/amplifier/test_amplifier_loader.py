"""From the id of a module to its mount: entry points, paths, resolvers, and errors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge.amplifier import (
    FileSource,
    GitSource,
    ModuleLoader,
    ModuleLoadError,
    ModuleNotFoundError,
    PackageSource,
)
from mcp_bridge.amplifier.testing import TestCoordinator
from tests.kits.amplifier.amplifier_modules import MODULE, install_distribution, write_files

POINTS = '[project.entry-points."amplifier.modules"]\n'


@pytest.fixture(autouse=True)
def nothing_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore the import path, and forget the modules imported by a test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


class Paths:
    """A resolver for these paths."""

    def __init__(self, **paths: Path) -> None:
        self.paths = paths

    def resolve(self, module_id: str, profile_hint: Any = None) -> FileSource:
        """The path of a module."""
        if module_id not in self.paths:
            raise ModuleNotFoundError(f"{module_id}: not in paths")
        return FileSource(self.paths[module_id])


async def find_tool_file(path: Path, module_id: str = "here") -> str:
    """Load the module at a path, and return the file of its tool."""
    coordinator = TestCoordinator()
    coordinator.mount("module-source-resolver", Paths(**{module_id: path}))
    await ModuleLoader(coordinator).load(module_id)
    result = await coordinator.get("tools", "here").execute({})
    return str(Path(result.output).relative_to(path.parent if path.suffix else path))


LAYOUTS = {
    "folder with a package": ({"amplifier_module_here/__init__.py": MODULE}, "amplifier_module_here/__init__.py"),
    "package by its id": ({"here/__init__.py": MODULE, "other/__init__.py": ""}, "here/__init__.py"),
    "src layout": ({"src/amplifier_module_here/__init__.py": MODULE}, "src/amplifier_module_here/__init__.py"),
    "the only package": ({"my_own/__init__.py": MODULE, "tests/test_x.py": ""}, "my_own/__init__.py"),
    "file by its id": ({"here.py": MODULE}, "here.py"),
    "pyproject": (
        {"pyproject.toml": f'{POINTS}here = "mine.inner:mount"', "mine/__init__.py": "", "mine/inner.py": MODULE},
        "mine/inner.py",
    ),
    "pyproject in src layout": (
        {"pyproject.toml": f'{POINTS}other = "mine:mount"', "src/mine.py": MODULE, "src/here/__init__.py": ""},
        "src/mine.py",
    ),
    "mount of another name": (
        {"pyproject.toml": f'{POINTS}here = "mine:setup"', "mine.py": MODULE.replace("def mount", "def setup")},
        "mine.py",
    ),
    "pyproject that cannot be read": ({"pyproject.toml": "][", "here.py": MODULE}, "here.py"),
    "pyproject without modules": ({"pyproject.toml": "[project]\nname = 'x'", "here.py": MODULE}, "here.py"),
}


@pytest.mark.parametrize(("files", "handles"), LAYOUTS.values(), ids=LAYOUTS.keys())
async def test_a_module_is_found_in_its_folder(files: dict[str, str], handles: str, tmp_path: Path) -> None:
    assert await find_tool_file(write_files(tmp_path, files)) == handles


async def test_a_path_may_be_a_file_or_a_package_also_in_another(tmp_path: Path) -> None:
    relative = "from .beside import NAME\n" + MODULE
    write_files(
        tmp_path, {"a/__init__.py": "", "a/b/__init__.py": relative, "a/b/beside.py": "NAME = 1", "odd-name.py": MODULE}
    )
    assert await find_tool_file(tmp_path / "odd-name.py") == "odd-name.py"
    assert await find_tool_file(tmp_path / "a" / "b") == "__init__.py"
    assert sys.modules["a.b"].__file__ == str(tmp_path / "a" / "b" / "__init__.py")


async def test_a_module_never_shadows_what_others_import(tmp_path: Path) -> None:
    write_files(tmp_path, {"here.py": MODULE, "sched.py": "raise AssertionError('imported')", "needed_beside.py": ""})
    assert await find_tool_file(tmp_path / "here.py") == "here.py"
    sys.modules.pop("sched", None)
    __import__("sched")
    __import__("needed_beside")


async def test_a_path_takes_precedence_over_an_installed_module(tmp_path: Path, monkeypatch: Any) -> None:
    install_distribution(tmp_path / "installed", monkeypatch, {}, {"here.py": "raise AssertionError"})
    write_files(tmp_path / "mine", {"here.py": MODULE})
    assert await find_tool_file(tmp_path / "mine") == "here.py"


async def test_two_modules_cannot_have_one_name_in_python(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        write_files(tmp_path / folder, {"here.py": MODULE})
    assert await find_tool_file(tmp_path / "one") == await find_tool_file(tmp_path / "one")
    with pytest.raises(ModuleLoadError, match=r"'here' is taken by .*one/here.py"):
        await find_tool_file(tmp_path / "two")
    with pytest.raises(ModuleLoadError, match="'sys' is taken by Python itself"):
        await find_tool_file(write_files(tmp_path / "three", {"sys.py": MODULE}) / "sys.py")


@pytest.mark.parametrize(
    "files",
    [{}, {"a/__init__.py": "", "b/__init__.py": ""}, {"pyproject.toml": f'{POINTS}here = "gone"', "a/__init__.py": ""}],
    ids=["empty", "several", "gone"],
)
async def test_the_error_for_a_folder_without_the_module_has_advice(files: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ModuleLoadError, match=r"has no package .*\. Declare it in pyproject\.toml"):
        await find_tool_file(write_files(tmp_path, files))


async def test_other_files_are_no_modules(tmp_path: Path) -> None:
    with pytest.raises(ModuleLoadError, match="nothing that can be imported as 'notes'"):
        await find_tool_file(write_files(tmp_path, {"notes.txt": ""}) / "notes.txt")


BROKEN = {
    "does not parse": ("def", "cannot be imported: SyntaxError"),
    "raises": ("1 / 0", "cannot be imported: ZeroDivisionError"),
    "ends": ("import sys; sys.exit(3)", "cannot be imported: SystemExit: 3"),
    "needs what is missing": ("import no_such_package", "No module named 'no_such_package'"),
    "no mount": ("", r"has no function 'mount\(coordinator, config\)'"),
    "mount is no function": ("mount = 1", "has no function 'mount"),
    "mount raises": ("def mount(coordinator, config): 1 / 0", "mount failed: ZeroDivisionError"),
    "mount raises later": ("async def mount(coordinator, config): 1 / 0", "mount failed: ZeroDivisionError"),
    "mount ends": ("async def mount(coordinator, config): raise SystemExit(3)", "mount failed: SystemExit: 3"),
    "mount takes too little": ("def mount(): ...", "mount failed: TypeError"),
    "collision": (
        "from mcp_bridge.amplifier.testing import MockTool\nasync def mount(coordinator, config):\n"
        "    for _ in range(2): await coordinator.mount('tools', MockTool('a'))",
        "mount failed: MountCollision: mount at 'tools': 'a' is already mounted",
    ),
    "needs amplifier-core": (
        "from amplifier_core.models import HookResult",
        r"needs amplifier_core, which is not installed\. Run: pip install 'mcp-tool-bridge\[amplifier\]'",
    ),
    "needs amplifier-core later": (
        "async def mount(coordinator, config): import amplifier_core",
        r"needs amplifier_core, .*'mcp-tool-bridge\[amplifier\]'",
    ),
}


@pytest.mark.parametrize(("text", "problem"), BROKEN.values(), ids=BROKEN.keys())
@pytest.mark.usefixtures("without_core")
async def test_the_error_of_a_module_that_cannot_be_loaded_has_the_reason(
    text: str, problem: str, tmp_path: Path
) -> None:
    with pytest.raises(ModuleLoadError, match=problem):
        await find_tool_file(write_files(tmp_path, {"here.py": text}))
    assert "here" not in sys.modules or "cannot be imported" not in problem


async def test_the_prints_of_an_import_go_to_stderr(tmp_path: Path, capsys: Any) -> None:
    await find_tool_file(write_files(tmp_path, {"here.py": f"print('hello')\n{MODULE}"}))
    assert capsys.readouterr().out == ""


async def test_an_installed_module_is_its_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "whole.py": "def mount(coordinator, config): return 'whole', config\n",
        "part.py": "def start(coordinator, config): return 'part'\n",
        "outer/__init__.py": "from .inner import mount\ndef on_session_ready(coordinator): coordinator.ready = 1\n",
        "outer/inner.py": "async def mount(coordinator, config): return 'inner'\n",
    }
    points = {"whole": "whole", "part": "part:start", "outer": "outer:mount", "gone": "gone:mount", "none": "part:none"}
    install_distribution(tmp_path, monkeypatch, points, files)
    loader = ModuleLoader(coordinator := TestCoordinator())
    config = {"a": 1}
    assert await loader.load("whole", config) == ("whole", {"a": 1})
    assert (await loader.load("whole", config))[1] is not config
    assert await loader.load("part") == "part"
    assert await loader.load("outer") == "inner"
    assert await loader.run_session_ready(coordinator) == []
    assert coordinator.ready == 1  # type: ignore[attr-defined]
    for name in ("gone", "none"):
        with pytest.raises(ModuleLoadError, match=f"module '{name}' cannot be imported"):
            await loader.load(name)
    pattern = r"not an entry point .*Installed are: .*outer, part, whole.*Install it"
    with pytest.raises(ModuleNotFoundError, match=pattern):
        await loader.load("nothing")


async def test_the_first_of_two_installed_modules_on_the_path_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The names are of this test alone, since other tests leave modules such as "first" in sys.modules.
    for name in ("second_on_the_path", "first_on_the_path"):
        files = {f"{name}.py": f"def mount(coordinator, config): return '{name}'"}
        install_distribution(tmp_path / name, monkeypatch, {"same": f"{name}:mount"}, files, name=name)
    assert await ModuleLoader(TestCoordinator()).load("same") == "first_on_the_path"


async def test_without_a_resolver_entry_points_come_before_search_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_distribution(
        tmp_path / "a", monkeypatch, {"mine": "mine_here:mount"}, {"mine_here.py": "def mount(c, d): return 1"}
    )
    write_files(tmp_path / "b", {"mine.py": "", "amplifier-module-tool-x/tool_x.py": "def mount(c, d): return 2"})
    loader = ModuleLoader(TestCoordinator(), search_paths=[tmp_path / "none", tmp_path / "b"])
    assert [await loader.load("mine"), await loader.load("tool-x")] == [1, 2]


async def test_entry_points_are_used_if_the_resolver_does_not_know_a_module_without_a_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_distribution(
        tmp_path, monkeypatch, {"mine": "mine_too:mount"}, {"mine_too.py": "def mount(c, d): return 1"}
    )
    coordinator = TestCoordinator()
    coordinator.mount("module-source-resolver", Paths())
    loader = ModuleLoader(coordinator)
    assert await loader.load("mine") == 1
    with pytest.raises(ModuleNotFoundError, match="mine: not in paths"):
        await loader.load("mine", {}, "git+https://host/mine@main")
    with pytest.raises(ModuleNotFoundError, match=r"not an entry point .*\(other: not in paths\)"):
        await loader.load("other")


async def test_modules_become_ready_after_all_mounts_and_a_failing_one_stops_no_other(tmp_path: Path) -> None:
    ready = (
        "\nasync def on_session_ready(coordinator): coordinator.session_state[__name__] = len(coordinator.get('tools'))"
    )
    fails = "def mount(c, d): ...\ndef on_session_ready(coordinator): raise SystemExit('no')"
    write_files(
        tmp_path, {"ready_a.py": MODULE + ready, "ready_b.py": fails, "ready_c.py": f"def mount(c, d): ...{ready}"}
    )
    loader = ModuleLoader(coordinator := TestCoordinator(), search_paths=[tmp_path])
    for module in ("ready_c", "ready_b", "ready_a"):
        await loader.load(module)
    assert await loader.run_session_ready(coordinator) == ["ready_b: on_session_ready failed: SystemExit: no"]
    assert coordinator.session_state == {"ready_a": 1, "ready_c": 1}
    assert await loader.run_session_ready(coordinator) == []


async def test_sources_resolve_to_the_folders_of_their_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path, {"with space.py": "", "amplifier_module_x/__init__.py": "", "single_x.py": ""})
    install_distribution(tmp_path, monkeypatch, {"x": "single_x:mount"}, {}, name="Named-Otherwise")
    assert FileSource((tmp_path / "with space.py").as_uri()).resolve() == tmp_path / "with space.py"
    assert PackageSource("amplifier-module-x").resolve() == tmp_path / "amplifier_module_x"
    assert PackageSource("single-x").resolve() == tmp_path / "single_x.py"
    assert PackageSource("Named-Otherwise").resolve() == tmp_path / "single_x.py"
    for missing in (FileSource(tmp_path / "no"), PackageSource(""), PackageSource("no.such"), PackageSource("a b")):
        with pytest.raises(ModuleNotFoundError):
            missing.resolve()
    with pytest.raises(
        ModuleNotFoundError, match=r"git\+https://host/x@main has not been fetched\. Run: mcp-bridge module lock"
    ):
        GitSource("git+https://host/x@main", tmp_path / "no").resolve()
