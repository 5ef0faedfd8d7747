"""`mcp-bridge export`: JSON alone on stdout, everything else on stderr."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._cli.desktop_options import MODEL_APIS
from tests.kits.export.export_kit import ALL_FORMATS, list_functions

TOOLS = '''
from mcp_bridge import ToolEntry, tool

print("printed while it is imported")


@tool
def reads(path: str, lines: int = 10) -> str:
    """Read a file."""
    return path


dotted = ToolEntry("a.b", "", lambda data: data, {"type": "object"})
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text(TOOLS)
    return tmp_path


def run(folder: Path, *args: str) -> Any:
    command = [sys.executable, "-m", "mcp_bridge", *args]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, encoding="utf-8")


def test_stdout_has_the_tools_and_stderr_the_problems(folder: Path) -> None:
    process = run(folder, "export", "tools", "anthropic")
    assert process.returncode == 0, process.stderr
    value = list_functions("anthropic", json.loads(process.stdout))
    assert value["reads"][0] == "Read a file."
    assert value["reads"][1]["properties"]["lines"] == {"type": "integer", "default": 10}
    assert process.stderr.splitlines() == [
        "printed while it is imported",
        "tool 'a.b': $: the tool is called 'a_b_2e7336dc'",
    ]


def test_strict_reports_tools_that_cannot_be_strict(folder: Path) -> None:
    process = run(folder, "export", "tools", "openai", "tools.py", "--strict")
    assert [tool["function"]["strict"] for tool in json.loads(process.stdout)] == [False, True]
    assert "tool 'a.b': $: it accepts any properties, and strict mode requires named properties" in process.stderr


def test_selected_tools_are_written_to_a_file(folder: Path) -> None:
    process = run(folder, "export", "tools", "gemini", "--only", "reads", "--output", "made.json")
    assert (process.returncode, process.stdout) == (0, "")
    assert "Wrote made.json" in process.stderr
    assert set(list_functions("gemini", json.loads((folder / "made.json").read_text()))) == {"reads"}


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["cohere"], 2, "unknown format 'cohere'. Name one of: openai, openai-responses, anthropic,"),
        (["gemini", "--strict"], 2, "format 'gemini' has no strict mode. These have: openai, openai-responses"),
        (["openai", "--only", "raeds"], 3, "Unknown tool: raeds. Did you mean 'reads'?"),
        (["openai", "none.py"], 2, "none.py: no such file or folder"),
        (["openai", "--output", "none/made.json"], 2, "none/made.json: cannot write: No such file or directory"),
    ],
)
def test_impossible_exports_are_reported(folder: Path, args: list[str], code: int, message: str) -> None:
    process = run(folder, "export", "tools", *args)
    assert process.returncode == code
    assert process.stdout == ""
    assert message in process.stderr


def test_a_source_that_cannot_be_loaded_is_reported(folder: Path) -> None:
    (folder / "many").mkdir()
    (folder / "many" / "good.py").write_text(TOOLS)
    (folder / "many" / "broken.py").write_text("import nothing_of_that_name\n")
    process = run(folder, "export", "tools", "openai", "many")
    assert len(json.loads(process.stdout)) == 2
    assert "nothing_of_that_name" in process.stderr


def test_help_names_all_formats(folder: Path) -> None:
    process = run(folder, "export", "tools", "--help")
    assert tuple(MODEL_APIS.split(", ")) == ALL_FORMATS
    assert [name for name in ALL_FORMATS if name not in process.stdout] == []


def test_exporting_imports_no_sdk_of_mcp_or_of_a_vendor(folder: Path) -> None:
    code = (
        "import sys; from mcp_bridge._cli import main; sys.argv = ['mcp-bridge', 'export', 'openai']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(sorted(set(sys.modules) & {'mcp', 'mcp_types', 'starlette', 'openai', 'anthropic', 'google.genai'}))"
    )
    process = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=60)
    assert process.stdout.splitlines()[-1] == "[]", process.stderr
