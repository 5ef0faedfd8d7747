"""Programs on Windows are found with their extension, and batch files get no argument that cmd.exe would run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcp_bridge._runtime.platform.windows import check_command, is_path, locate_program


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Return two folders of PATH, and make another one with programs the current folder."""
    monkeypatch.setenv("PATHEXT", os.pathsep.join((".COM", ".EXE", ".BAT", ".CMD")))
    first, second, current = tmp_path / "first", tmp_path / "second", tmp_path / "current"
    for folder in (first, second, current):
        folder.mkdir()
    # npm installs a shell script next to the batch file.
    for path in (first / "npx", first / "npx.cmd", second / "npx.exe", second / "tool.v2.exe", current / "evil.exe"):
        path.touch()
    monkeypatch.chdir(current)
    monkeypatch.setenv("PATH", f"{first}{os.pathsep}{second}")
    return first, second


def test_a_program_is_found_by_its_name_without_the_extension(folders: tuple[Path, Path]) -> None:
    first, second = folders
    assert locate_program("npx") == str(first / "npx.cmd")
    assert locate_program("npx.exe") == str(second / "npx.exe")
    assert locate_program("tool.v2") == str(second / "tool.v2.exe")
    assert locate_program("npx", str(second)) == str(second / "npx.exe")
    assert locate_program("missing") is None


def test_a_path_is_completed_by_the_extension_too(folders: tuple[Path, Path]) -> None:
    first, _ = folders
    assert is_path(str(first / "npx"))
    assert locate_program(str(first / "npx")) == str(first / "npx.cmd")
    assert locate_program(str(first / "npx.cmd")) == str(first / "npx.cmd")


def test_programs_in_the_current_folder_are_not_found(folders: tuple[Path, Path]) -> None:
    assert locate_program("evil") is None
    assert locate_program("evil", os.pathsep) is None


@pytest.mark.parametrize(
    "argument", ['a"b', "a&calc", "100%", "%PATH%", "a|b", "x>y", "^", "!x!", "a\r\nb", "(x)", "a\0"]
)
@pytest.mark.parametrize("program", [r"C:\nodejs\npx.cmd", r"C:\tool.BAT", r"C:\tool.bat. ."])
def test_a_batch_file_gets_no_character_that_cmd_would_interpret(program: str, argument: str) -> None:
    with pytest.raises(ValueError, match="is a batch file") as error:
        check_command([program, "-y", argument])
    assert argument not in str(error.value) or len(argument) == 1


@pytest.mark.parametrize("argument", ["", "@scope/pkg@1.2", "--root=C:\\Program Files (x86)\\x", "a,b;c=d", "'x'", "ü"])
def test_a_batch_file_gets_other_arguments(argument: str) -> None:
    check_command([r"C:\nodejs\npx.cmd", argument])


def test_other_programs_get_every_argument() -> None:
    check_command([r"C:\node.exe", 'a"&calc%PATH%'])
