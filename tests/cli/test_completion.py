"""Shells complete commands, options and clients, and the tools of a file with their arguments."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kits.cli.cli_running import RunHere

TOOLS = '''
from typing import Literal
from mcp_bridge import prompt, resource, tool

print("printed while it is imported")

@tool
def take(item: Literal["pears", "apples"], amount: int = 1, fresh: bool | None = None) -> str:
    """Take items from the shelf."""
    return f"took {item}"

@tool
def talk(name: Literal["two words", "$(touch stolen)", "colour\\x1b[31m"]) -> str:
    return name

@prompt
def greet(who: str) -> str:
    return who

@resource("shelf://all")
def shelf() -> str:
    return "pears"
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text(TOOLS)
    return tmp_path


def complete(folder: Path, line: str) -> list[str]:
    """Return the completions of a line for a shell, without those that a program's shell would add."""
    result = folder / "completions.txt"
    words = {
        "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_SHELL": "fish", "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(result), "COMP_LINE": f"mcp-bridge {line}",
        "COMP_POINT": str(len(f"mcp-bridge {line}")), "HOME": str(folder),
    }  # fmt: skip
    script = Path(sys.executable).with_name("mcp-bridge")
    subprocess.run([script], cwd=folder, env={**os.environ, **words}, capture_output=True, timeout=60, check=False)
    return result.read_text().splitlines() if result.exists() else []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("inst", ["install"]),
        ("export mc", ["mcpb", "mcp-json"]),
        (
            "install c",
            ["claude-desktop", "claude-code", "cursor", "codex", "copilot-cli", "crush", "cline", "continue"],
        ),
        ("install codex --scope ", ["user", "project", "local"]),
        ("module validate x --type h", ["hook"]),
        ("list --comm", ["--command"]),
        ("serve to", ["tools.py"]),
        ("doctor to", ["tools.py"]),
        ("call to", ["tools.py"]),
        ("call tools.py ", ["take", "talk"]),
        ("call --json -f tools.py ta", ["take", "talk"]),
        ("call ~/tools.py ta", ["take", "talk"]),
        ("call -f ~/tools.py ta", ["take", "talk"]),
        ("explain tools.py ta", ["take", "talk"]),
        ("get tools.py ", ["greet"]),
        ("get tools.py greet ", ["who="]),
        ("read tools.py ", ["shelf://all"]),
        ("call tools.py take ", ["item=", "amount=", "fresh="]),
        ("call take ", ["item=", "amount=", "fresh="]),
        ("call tools.py take item=pears ", ["amount=", "fresh="]),
        ("call tools.py --json take --log-level error am", ["amount="]),
        ("call tools.py take item=", ["item=pears", "item=apples"]),
        ("call tools.py take item=a", ["item=apples"]),
        ("call tools.py take fresh=", ["fresh=true", "fresh=false"]),
        ("call tools.py take amount=", []),
        ("call tools.py talk name=c", []),
        ("call https://127.0.0.1:9/mcp ", []),
        ("call missing.py ", []),
    ],
)
def test_a_line_is_completed(folder: Path, line: str, expected: list[str]) -> None:
    assert complete(folder, line) == expected


def test_a_file_that_the_line_does_not_name_is_not_loaded(folder: Path) -> None:
    (folder / "tools.py").write_text("open('loaded.txt', 'w')\n")
    complete(folder, "call ")
    complete(folder, "call ta")
    assert not (folder / "loaded.txt").exists()
    complete(folder, "call tools.py ")
    assert (folder / "loaded.txt").exists()


def test_the_script_for_each_shell_is_printed(run_here: RunHere) -> None:
    for shell in ("bash", "zsh", "fish", "powershell"):
        result = run_here("completion", shell)
        assert (result.code, result.err) == (0, "")
        assert "mcp-bridge" in result.out


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_an_interactive_shell_completes_tools_and_their_arguments(folder: Path, name: str) -> None:
    from tests.kits.cli.shells import InteractiveShell, list_shells

    if name not in list_shells():
        pytest.skip(f"{name} is not installed")
    with InteractiveShell(name, folder) as shell:
        shell.type("mcp-bridge call tools.py tak\t")
        shell.wait_for("take")
        # Without a space after the equals sign, the value is typed next.
        shell.type("it\tpe\t\n")
        shell.wait_for("took pears")
        shell.type("mcp-bridge call tools.py talk name=tw\t\n")
        shell.wait_for("two words")
        shell.type("mcp-bridge call tools.py talk name=\\$\t\n")
        shell.wait_for("(touch stolen)")
        shell.type('echo "do""ne"\n')
        shell.wait_for("done")
    assert not (folder / "stolen").exists()
