"""`list`: tables, names or JSON on stdout, every problem on stderr."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kits.cli.cli_running import COMMAND, TOOLS, Inside, run, run_alone

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


def test_quiet_prints_the_names_of_the_tools_alone(tmp_path: Path) -> None:
    done = run("list", TOOLS, "--quiet", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [name.replace("\x1b", "\\x1b").replace("\n", "\\n") for name in ALL]


def test_the_table_is_on_stdout_with_the_parameters_of_each_tool(tmp_path: Path) -> None:
    done = run("list", TOOLS, cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    header, *rows = done.out.splitlines()
    assert header.split() == ["tool", "parameters", "description", "tags", "source"]
    (echo,) = (row for row in rows if row.startswith("echo "))
    assert 'text: string = "", number: number = 0' in echo
    assert "flag: boolean = false" in echo
    assert "What it was given." in echo
    assert "kind, first" in echo
    assert "Only the first line" not in done.out


@pytest.mark.parametrize("folder", [".", "./"])
def test_the_current_folder_is_a_source_with_a_name(inside: Inside, tmp_path: Path, folder: str) -> None:
    (tmp_path / "own.py").write_text("from mcp_bridge import ToolEntry\na = ToolEntry('a', 'A.', lambda data: 1, {})\n")
    (tmp_path / "shelf.yaml").write_text(f"sources:\n  - {{type: python, path: {folder}}}\n")
    for target in (folder, "shelf.yaml"):
        (row,) = inside("list", target, "--json").json
        assert row["source"] == tmp_path.name


def test_a_pipe_gets_every_character_and_a_terminal_columns_of_its_width(
    inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    name, description = "a_long_name_of_a_tool" * 3, "word " * 60 + "end"
    source = f"from mcp_bridge import ToolEntry\na = ToolEntry('{name}', '{description}', lambda data: 1, {{}})\n"
    (tmp_path / "tools.py").write_text(source)
    row = inside("list").out.splitlines()[1]
    assert row.split("  ") == [name, description, "tools"]
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True, raising=False)
    shown = inside("list").out
    assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in shown.splitlines()) <= 60
    assert "…" not in shown


def test_what_a_tool_file_prints_is_not_in_the_result(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(f'print("printed at import")\n{TOOLS.read_text()}')
    for command in (["list", "--json"], ["list", "-q"], ["validate", "--json"]):
        done = run(*command, cwd=tmp_path)
        assert "printed at import" not in done.out
        assert "printed at import" in done.err


def test_the_parameters_of_a_prompt_are_listed(inside: Inside, tmp_path: Path) -> None:
    source = 'from mcp_bridge import prompt\n@prompt\ndef greet(who: str, how: str = "") -> str:\n    """Greet."""\n'
    (tmp_path / "tools.py").write_text(source)
    done = inside("list")
    assert done.out.splitlines()[-1].split() == ["prompt", "greet", "who,", "how?", "Greet.", "tools"]


def test_names_and_descriptions_cannot_steer_the_terminal(inside: Inside) -> None:
    done = inside("list", TOOLS)
    assert "\x1b" not in done.out + done.err
    assert r"st\x1b[31meers\nforged" in done.out
    assert r"Steers\x1b[31m." in done.out


def test_json_has_every_documented_key(inside: Inside) -> None:
    rows = {row["name"]: row for row in inside("list", TOOLS, "--json").json}
    assert list(rows) == ALL
    assert rows["echo"].keys() == {
        "kind", "name", "description", "input_schema", "output_schema", "tags", "client_name", "source",
    }  # fmt: skip
    assert rows["echo"]["source"] == "cli_tools"
    assert rows["echo"]["tags"] == ["kind", "first"]
    assert rows["echo"]["input_schema"]["properties"]["flag"] == {"type": "boolean", "default": False}
    assert rows[ALL[9]]["client_name"].startswith("st__31meers_forged_")


def test_json_is_json_even_where_a_schema_is_not(inside: Inside) -> None:
    done = inside("list", TOOLS, "--json")
    assert "Infinity" not in done.out
    endless = next(row for row in done.json if row["name"] == "endless")
    assert endless["input_schema"]["properties"]["a"] == {"default": None}


def test_titles_and_annotations_are_in_json_where_a_tool_has_them(inside: Inside, tmp_path: Path) -> None:
    source = 'from mcp_bridge import ToolEntry\na = ToolEntry("a", "A.", lambda data: 1, {}, title="The a")\n'
    (tmp_path / "tools.py").write_text(source)
    assert inside("list", "--json").json[0]["title"] == "The a"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--tag", "first", "--tag", "bad"], ["breaks", "echo", "refuses"]),
        (["--tag", "kind", "--tag", "first", "--all-tags"], ["echo"]),
        (["--tag", "kind", "--tag", "bad", "--all-tags"], []),
    ],
)
def test_tags_choose(inside: Inside, options: list[str], expected: list[str]) -> None:
    assert inside("list", TOOLS, *options, "-q").out.splitlines() == expected
    assert [row["name"] for row in inside("list", TOOLS, *options, "--json").json] == expected


def test_no_tool_is_said_and_gives_no_line(inside: Inside) -> None:
    done = inside("list", TOOLS, "--tag", "nobody's")
    assert (done.code, done.out) == (0, "")
    assert "no tools" in done.err


def test_what_cannot_be_imported_is_told_once_beside_the_rest(inside: Inside, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "good.py").write_text("from mcp_bridge import tool\n@tool\ndef fine() -> int:\n    return 1\n")
    (folder / "bad.py").write_text("\nimport nothing_of_this_name\n")
    done = inside("list", folder, "-q")
    assert (done.code, done.out) == (0, "fine\n")
    assert done.err.count(f"{folder / 'bad.py'}:2: ModuleNotFoundError") == 1


def test_a_reader_that_has_gone_is_no_traceback(tmp_path: Path) -> None:
    with subprocess.Popen([*COMMAND, "list", str(TOOLS)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
        process.wait(60)
    assert b"Traceback" not in said
    assert b"Exception ignored" not in said


def test_an_encoding_without_the_letter_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        'from mcp_bridge import ToolEntry\na = ToolEntry("a", "", lambda data: "ü", {})\n', encoding="utf-8"
    )
    done = run_alone("call", "a", cwd=tmp_path, env={"PYTHONIOENCODING": "ascii"})
    assert (done.code, done.out) == (0, "\\xfc\n")


def test_a_source_that_publishes_a_resource_works_although_it_has_a_problem(inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        "from mcp_bridge import resource, tool\n\n@resource('notes://today')\ndef read() -> str:\n    'Read.'\n"
        "@tool(input_schema={'$schema': 'https://example.com/dialect', 'type': 'object'})\n"
        "def bad(data):\n    'Never published.'\n"
    )
    done = inside("list", "tools.py")
    assert (done.code, "tool 'bad' is not published" in done.err) == (0, True)


def test_a_file_none_of_whose_servers_works_exits_with_1(inside: Inside, tmp_path: Path) -> None:
    broken = {"mcpServers": {"one": {"command": "no-such-program-here"}}}
    (tmp_path / "mcp.json").write_text(json.dumps(broken))
    done = inside("list", "mcp.json")
    assert done.code == 1
    assert "source 'one': the server is not connected: the program 'no-such-program-here' was not found" in done.err
    (tmp_path / "tools.py").write_text("from mcp_bridge import tool\n\n@tool\ndef add() -> int:\n    'Add.'\n")
    broken["mcpServers"]["two"] = {"command": sys.executable, "args": ["-m", "mcp_bridge", "serve", "tools.py"]}
    (tmp_path / "mcp.json").write_text(json.dumps(broken))
    assert inside("list", "mcp.json").code == 0
