"""`list`: tables, names or JSON are on stdout, and problems on stderr."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kits.cli.cli_running import COMMAND, TOOLS, RunHere, run, run_in_interpreter

ALL = [
    "blocks",
    "blocks_given",
    "breaks",
    "echo",
    "endless",
    "leaves_a_thread",
    "loud",
    "nothing",
    "refuses",
    "st\x1b[31meers\nforged",
    "steps",
    "waits",
]


def test_quiet_prints_only_the_names_of_the_tools(tmp_path: Path) -> None:
    result = run("list", TOOLS, "--quiet", cwd=tmp_path)
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [name.replace("\x1b", "\\x1b").replace("\n", "\\n") for name in ALL]


def test_the_table_is_on_stdout_with_the_parameters_of_each_tool(tmp_path: Path) -> None:
    result = run("list", TOOLS, cwd=tmp_path)
    assert (result.code, result.err) == (0, "")
    header, *rows = result.out.splitlines()
    assert header.split() == ["tool", "parameters", "description", "tags", "source"]
    (echo,) = (row for row in rows if row.startswith("echo "))
    assert 'text: string = "", number: number = 0' in echo
    assert "flag: boolean = false" in echo
    assert "Return the arguments." in echo
    assert "kind, first" in echo
    assert "only the first line" not in result.out


@pytest.mark.parametrize("folder", [".", "./"])
def test_the_current_folder_is_a_source_with_a_name(run_here: RunHere, tmp_path: Path, folder: str) -> None:
    (tmp_path / "own.py").write_text("from mcp_bridge import ToolEntry\na = ToolEntry('a', 'A.', lambda data: 1, {})\n")
    (tmp_path / "shelf.yaml").write_text(f"sources:\n  - {{type: python, path: {folder}}}\n")
    for target in (folder, "shelf.yaml"):
        (row,) = run_here("list", target, "--json").json
        assert row["source"] == tmp_path.name


def test_a_pipe_gets_every_character_and_a_terminal_columns_of_its_width(
    run_here: RunHere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    name, description = "a_long_name_of_a_tool" * 3, "word " * 60 + "end"
    source = f"from mcp_bridge import ToolEntry\na = ToolEntry('{name}', '{description}', lambda data: 1, {{}})\n"
    (tmp_path / "tools.py").write_text(source)
    row = run_here("list").out.splitlines()[1]
    assert row.split("  ") == [name, description, "tools"]
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True, raising=False)
    output = run_here("list").out
    assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in output.splitlines()) <= 60
    assert "…" not in output


def test_what_a_tool_file_prints_is_not_in_the_result(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(f'print("printed at import")\n{TOOLS.read_text()}')
    for command in (["list", "--json"], ["list", "-q"], ["validate", "--json"]):
        result = run(*command, cwd=tmp_path)
        assert "printed at import" not in result.out
        assert "printed at import" in result.err


def test_the_parameters_of_a_prompt_are_listed(run_here: RunHere, tmp_path: Path) -> None:
    source = 'from mcp_bridge import prompt\n@prompt\ndef greet(who: str, how: str = "") -> str:\n    """Greet."""\n'
    (tmp_path / "tools.py").write_text(source)
    result = run_here("list")
    assert result.out.splitlines()[-1].split() == ["prompt", "greet", "who,", "how?", "Greet.", "tools"]


def test_names_and_descriptions_cannot_control_the_terminal(run_here: RunHere) -> None:
    result = run_here("list", TOOLS)
    assert "\x1b" not in result.out + result.err
    assert r"st\x1b[31meers\nforged" in result.out
    assert r"Steers\x1b[31m." in result.out


def test_json_has_every_documented_key(run_here: RunHere) -> None:
    rows = {row["name"]: row for row in run_here("list", TOOLS, "--json").json}
    assert list(rows) == ALL
    assert rows["echo"].keys() == {
        "kind", "name", "description", "input_schema", "output_schema", "tags", "client_name", "source",
    }  # fmt: skip
    assert rows["echo"]["source"] == "cli_tools"
    assert rows["echo"]["tags"] == ["kind", "first"]
    assert rows["echo"]["input_schema"]["properties"]["flag"] == {"type": "boolean", "default": False}
    assert rows[ALL[9]]["client_name"].startswith("st__31meers_forged_")


def test_json_is_valid_even_if_a_schema_has_other_values(run_here: RunHere) -> None:
    result = run_here("list", TOOLS, "--json")
    assert "Infinity" not in result.out
    endless = next(row for row in result.json if row["name"] == "endless")
    assert endless["input_schema"]["properties"]["a"] == {"default": None}


def test_json_has_the_title_and_annotations_of_a_tool(run_here: RunHere, tmp_path: Path) -> None:
    source = 'from mcp_bridge import ToolEntry\na = ToolEntry("a", "A.", lambda data: 1, {}, title="The a")\n'
    (tmp_path / "tools.py").write_text(source)
    assert run_here("list", "--json").json[0]["title"] == "The a"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--tag", "first", "--tag", "bad"], ["breaks", "echo", "refuses"]),
        (["--tag", "kind", "--tag", "first", "--all-tags"], ["echo"]),
        (["--tag", "kind", "--tag", "bad", "--all-tags"], []),
    ],
)
def test_tags_select_tools(run_here: RunHere, options: list[str], expected: list[str]) -> None:
    assert run_here("list", TOOLS, *options, "-q").out.splitlines() == expected
    assert [row["name"] for row in run_here("list", TOOLS, *options, "--json").json] == expected


def test_an_empty_list_is_reported_on_stderr_only(run_here: RunHere) -> None:
    result = run_here("list", TOOLS, "--tag", "unknown")
    assert (result.code, result.out) == (0, "")
    assert "no tools" in result.err


def test_an_import_error_is_reported_once_and_other_tools_are_listed(run_here: RunHere, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "good.py").write_text("from mcp_bridge import tool\n@tool\ndef fine() -> int:\n    return 1\n")
    (folder / "bad.py").write_text("\nimport nothing_of_this_name\n")
    result = run_here("list", folder, "-q")
    assert (result.code, result.out) == (0, "fine\n")
    assert result.err.count(f"{folder / 'bad.py'}:2: ModuleNotFoundError") == 1


def test_a_closed_pipe_causes_no_traceback(tmp_path: Path) -> None:
    with subprocess.Popen([*COMMAND, "list", str(TOOLS)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        stderr = process.stderr.read()
        process.wait(60)
    assert b"Traceback" not in stderr
    assert b"Exception ignored" not in stderr


def test_an_encoding_without_a_character_causes_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        'from mcp_bridge import ToolEntry\na = ToolEntry("a", "", lambda data: "ü", {})\n', encoding="utf-8"
    )
    result = run_in_interpreter("call", "a", cwd=tmp_path, env={"PYTHONIOENCODING": "ascii"})
    assert (result.code, result.out) == (0, "\\xfc\n")


def test_a_source_that_publishes_a_resource_works_although_it_has_a_problem(run_here: RunHere, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        "from mcp_bridge import resource, tool\n\n@resource('notes://today')\ndef read() -> str:\n    'Read.'\n"
        "@tool(input_schema={'$schema': 'https://example.com/dialect', 'type': 'object'})\n"
        "def bad(data):\n    'Never published.'\n"
    )
    result = run_here("list", "tools.py")
    assert (result.code, "tool 'bad' is not published" in result.err) == (0, True)


def test_a_file_without_a_working_server_exits_with_1(run_here: RunHere, tmp_path: Path) -> None:
    broken = {"mcpServers": {"one": {"command": "no-such-program-here"}}}
    (tmp_path / "mcp.json").write_text(json.dumps(broken))
    result = run_here("list", "mcp.json")
    assert result.code == 1
    assert "source 'one': the server is not connected: the program 'no-such-program-here' was not found" in result.err
    (tmp_path / "tools.py").write_text("from mcp_bridge import tool\n\n@tool\ndef add() -> int:\n    'Add.'\n")
    broken["mcpServers"]["two"] = {"command": sys.executable, "args": ["-m", "mcp_bridge", "serve", "tools.py"]}
    (tmp_path / "mcp.json").write_text(json.dumps(broken))
    assert run_here("list", "mcp.json").code == 0
