"""An error at the start is reported once, and so is an edit that repairs a broken file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kits.cli.cli_running import LIST, run, start_command

FINE = "from mcp_bridge import tool\n\n@tool\ndef {name}() -> int:\n    return 1\n"
BROKEN = "import nothing_of_this_name\n"
PROBLEM = (
    "broken.py:1: ModuleNotFoundError: No module named 'nothing_of_this_name'. "
    "Install the package that provides it, or correct the import"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "fine.py").write_text(FINE.format(name="take"))
    (tmp_path / "broken.py").write_text(BROKEN)
    return tmp_path


def write_settings(folder: Path, *sources: str) -> str:
    lines = [f"  - {{type: python, {source}}}\n" for source in sources]
    (folder / "some.yaml").write_text("sources:\n" + "".join(lines))
    return "some.yaml"


@pytest.mark.parametrize("command", [("serve",), ("serve", "--http", "0"), ("call", "take", "--file")], ids=" ".join)
def test_an_error_that_ends_the_start_is_reported_once(command: tuple[str, ...], folder: Path) -> None:
    result = run(*command, "broken.py", cwd=folder)
    assert (result.code, result.out) == (1, "")
    assert result.err == f"mcp-bridge: {folder / PROBLEM}\n"


def test_every_error_that_ends_the_start_is_reported_once(folder: Path) -> None:
    (folder / "empty.py").write_text("")
    result = run("serve", write_settings(folder, "path: broken.py", "path: empty.py"), cwd=folder)
    assert result.code == 1
    assert result.err.count("nothing_of_this_name") == result.err.count("no tools found") == 1


def test_two_tools_with_one_name_are_reported_once(folder: Path) -> None:
    result = run("serve", write_settings(folder, "path: fine.py, name: a", "path: fine.py, name: b"), cwd=folder)
    assert result.code == 2
    assert result.err.count("comes from both") == 1


@pytest.mark.parametrize("command", ["serve", "call"])
def test_an_error_that_does_not_end_the_start_is_logged(command: str, folder: Path) -> None:
    settings = write_settings(folder, "path: broken.py", "path: fine.py")
    result = (
        run("serve", settings, cwd=folder) if command == "serve" else run("call", "take", "-f", settings, cwd=folder)
    )
    assert result.code == 0
    assert result.err.count(f"source 'broken' ended: {folder / PROBLEM}") == 1


def test_the_log_file_has_the_error_that_ends_the_start(folder: Path) -> None:
    result = run("serve", "broken.py", "--log-file", "log.txt", cwd=folder)
    assert result.err.count(PROBLEM) == (folder / "log.txt").read_text().count(PROBLEM) == 1


def test_an_edit_that_repairs_a_file_is_reported_like_the_one_that_broke_it(folder: Path) -> None:
    with start_command("serve", "fine.py", "--reload", cwd=folder) as command:
        assert command.process.stdout is not None
        command.send(LIST)
        assert "take" in command.process.stdout.readline()
        (folder / "fine.py").write_text("import nothing_of_this_name\n")
        command.wait_for("the tools stay as they were")
        (folder / "fine.py").write_text(FINE.format(name="give"))
        assert "WARNING" in command.wait_for("source 'fine' reloaded: 1 tools")


def test_an_edit_that_repairs_a_file_that_was_broken_at_the_start_is_reported(folder: Path) -> None:
    with start_command("serve", "broken.py", "--reload", cwd=folder) as command:
        command.wait_for(PROBLEM)
        (folder / "broken.py").write_text(FINE.format(name="give"))
        command.wait_for("source 'broken' reloaded: 1 tools")
