"""`validate` and `schema`, and the errors of every command for unusable files."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import jsonschema
import pytest

from tests.kits.cli.cli_running import TOOLS, RunHere, run_in_interpreter
from tests.kits.paths import ROOT

GOOD = "from mcp_bridge import tool\n\n@tool\ndef fine() -> int:\n    return 1\n"
LOOK_AROUND = """
from mcp_bridge import ToolEntry

peeks = ToolEntry("peeks", "", lambda data: 1, {"properties": {"a": {"type": "string", "pattern": "(?=a)b"}}})
"""


def test_a_valid_file_has_no_problems(run_here: RunHere) -> None:
    result = run_here("validate", TOOLS)
    assert (result.code, result.err, result.out) == (0, "", "12 tools, no problems\n")


def test_json_has_every_documented_key(run_here: RunHere, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(GOOD)
    result = run_here("validate", "--json")
    assert (result.code, result.err) == (0, "")
    lists: dict[str, list[str]] = {"notes": [], "clients": [], "findings": [], "errors": []}
    assert result.json == {"ok": True, "tools": ["fine"], "problems": {"tools": []}, **lists}


def test_patterns_that_match_no_tool_are_noted(run_here: RunHere, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(GOOD)
    (tmp_path / "bridge.yaml").write_text(
        "sources: [{type: python, path: tools.py}]\n"
        "policy: [deny: {tools: 'fin_*'}, cache: {tools: ['*', '!fine']}, read_only: {tools: call_tool}]\n"
        "limits: {tools: {fine: {timeout: 5}, fnie: {timeout: 9}}}\n"
        "tool_search: 50\n"
    )
    result = run_here("validate", "bridge.yaml")
    first = "policy[0].deny.tools: no tool matches the pattern 'fin_*'"
    second = "limits.tools: no tool matches the pattern 'fnie'"
    assert (result.code, result.err, result.out) == (0, "", f"{first}\n{second}\n1 tool, no problems\n")
    assert run_here("validate", "bridge.yaml", "--json").json["notes"] == [first, second]


@pytest.mark.parametrize(
    ("source", "line", "problem"),
    [
        ("\n\nimport nothing_of_this_name\n", 3, "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("def f(:\n", 1, "SyntaxError"),
        ("\nraise SystemExit(4)\n", 2, "SystemExit: 4"),
    ],
)
def test_an_import_error_is_reported_once_with_file_and_line(
    run_here: RunHere, tmp_path: Path, source: str, line: int, problem: str
) -> None:
    file = tmp_path / "tools.py"
    file.write_text(source)
    result = run_here("validate")
    assert (result.code, result.err) == (1, "")
    assert result.out.count(f"source 'tools': {file}:{line}: {problem}") == 1
    assert result.out.endswith("\n0 tools; see the problems above\n")
    assert len(result.out.splitlines()) == 2
    problems = run_here("validate", "--json").json["problems"]["tools"]
    assert problems[0].startswith(f"{file}:{line}: {problem}")


def test_a_pattern_with_look_around_is_reported_with_its_tool_and_place(run_here: RunHere, tmp_path: Path) -> None:
    file = tmp_path / "tools.py"
    file.write_text(LOOK_AROUND + GOOD)
    result = run_here("validate", "--json")
    assert result.code == 1
    assert result.json["ok"] is False
    assert result.json["tools"] == ["fine"]
    (problem,) = result.json["problems"]["tools"]
    for text in ("'peeks'", "properties/a/pattern", "(?=a)b"):
        assert text in problem


def test_two_tools_with_one_name_are_reported_once_with_both_sources(run_here: RunHere, tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / f"{name}.py").write_text(GOOD)
    file = tmp_path / "x.yaml"
    file.write_text("sources: [{type: python, path: first.py}, {type: python, path: second.py}]\n")
    result = run_here("validate", file)
    assert (result.code, result.err) == (1, "")
    assert result.out.count("Tool 'fine' comes from both source 'first' and source 'second'") == 1
    assert "prefix" in result.out
    assert run_here("validate", file, "--json").json["ok"] is False
    listing = run_here("list", file)
    assert (listing.code, listing.out) == (2, "")
    assert listing.err.startswith("mcp-bridge: Tool 'fine' comes from both")


def test_a_file_without_tools_is_an_error_with_advice(run_here: RunHere, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("x = 1\n")
    result = run_here("validate")
    assert result.code == 1
    assert "no tools found. Mark a function with @tool" in result.out


@pytest.mark.parametrize(
    ("suffix", "content", "line", "problem"),
    [
        ("yaml", "sources:\n  - {type: python, pth: tools.py}\n", 2, "sources[0].pth: unknown key 'pth', did you mean"),
        ("yaml", "name: [\n", 2, ""),
        ("yaml", "sources:\n  - {type: python, path: '${UNSET_X}'}\n", 2, "environment variable UNSET_X is not set"),
        ("json", '{\n"sources": 3}', 2, "sources: expected a list, found"),
        ("toml", 'name = "x"\n[http]\nport = 99999\n', 3, "http.port: expected 65535 or less, found the number 99999"),
        ("yaml", "sources:\n  - {type: python}\n", 2, "give either path or module"),
    ],
)
def test_an_error_in_the_settings_is_reported_with_file_and_line(
    run_here: RunHere, tmp_path: Path, suffix: str, content: str, line: int, problem: str
) -> None:
    file = tmp_path / f"settings.{suffix}"
    file.write_text(content)
    result = run_here("validate", file)
    assert (result.code, result.out) == (2, "")
    assert re.match(rf"mcp-bridge: {re.escape(str(file))}:{line}: ", result.err), result.err
    assert problem in result.err
    as_json = run_here("validate", file, "--json")
    assert (as_json.code, as_json.err) == (2, result.err)
    assert as_json.json.keys() == {"ok", "tools", "problems", "notes", "clients", "findings", "errors"}
    assert as_json.json["ok"] is False
    assert as_json.json["errors"][0].startswith(f"{file}:{line}: ")


@pytest.mark.parametrize(
    ("command", "name", "problem"),
    [
        (["list"], "missing.py", "no such file or folder. Check the path"),
        (["list"], "missing", "no such file or folder. Check the path"),
        (["list"], "missing.yaml", "no such file. Create it"),
        (["list"], "notes.txt", "this file cannot be served. Use a .py file"),
        (
            ["list"],
            "bundle.md",
            "To serve a bundle of Amplifier, copy the lines between its first two `---` to a .yaml",
        ),
        (["list"], "folder.yaml", "found a directory, expected a file"),
        (["list"], "n" * 300 + ".py", "no such file or folder. Check the path"),
        (["validate"], "missing.py", "no such file or folder. Check the path"),
        (["call", "x", "-f"], "missing.py", "no such file or folder. Check the path"),
        (["serve"], "missing.py", "no such file or folder. Check the path"),
    ],
)
def test_a_path_that_cannot_be_served_is_a_usage_error(
    run_here: RunHere, tmp_path: Path, command: list[str], name: str, problem: str
) -> None:
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "bundle.md").write_text("---\nbundle: {name: x}\n---\n")
    (tmp_path / "folder.yaml").mkdir()
    result = run_here(*command, name)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"mcp-bridge: {name}: ")
    assert problem in result.err


def test_without_a_path_the_default_files_of_the_folder_are_found(run_here: RunHere, tmp_path: Path) -> None:
    result = run_here("list")
    assert (result.code, result.out) == (2, "")
    assert "no file was given, and the current folder has no default file" in result.err
    assert "mcp-bridge.yaml" in result.err
    assert "or create a project: mcp-bridge init" in result.err
    (tmp_path / "tools.py").write_text(GOOD)
    assert run_here("list", "-q").out == "fine\n"
    (tmp_path / "mcp-bridge.yaml").write_text("sources: [{type: python, path: tools.py, prefix: yaml}]\n")
    assert run_here("list", "-q").out == "yaml__fine\n"
    assert run_here("call", "yaml__fine").out == "1\n"


def test_a_folder_serves_its_files(run_here: RunHere, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "first.py").write_text(GOOD)
    (folder / "second.py").write_text(GOOD.replace("fine", "good"))
    (folder / "_not_this.py").write_text("raise ValueError\n")
    assert run_here("list", folder, "-q").out == "fine\ngood\n"


def test_every_example_is_valid(run_here: RunHere, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = [path for path in sorted((ROOT / "config").iterdir()) if path.suffix in {".yaml", ".toml"}]
    assert examples
    # One example starts `mcp-bridge`, which has to be the one of this checkout.
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    for path in examples:
        result = run_here("validate", path)
        assert result.code == 0, result.err


def test_the_schema_of_the_settings_accepts_valid_and_rejects_invalid_settings(run_here: RunHere) -> None:
    result = run_here("schema")
    assert (result.code, result.err) == (0, "")
    validator = jsonschema.Draft202012Validator(result.json)
    assert validator.is_valid({"name": "x", "sources": [{"type": "python", "path": "tools.py"}]})
    assert not validator.is_valid({"nme": "x"})
    assert json.loads((ROOT / "config" / "settings.schema.json").read_text()) == result.json


@pytest.mark.parametrize(
    ("arguments", "code", "out", "err"),
    [
        (["--version"], 0, r"mcp-bridge \d+\.\d+\.\d+\n", ""),
        (["--help"], 0, "Usage: .*init.*call.*serve.*doctor.*list.*validate.*schema.*Options:.*", ""),
        (["serve", "-h"], 0, "Usage: .*--http.*--token-env.*--reload.*--log-level.*--log-file.*", ""),
        ([], 2, "", "Usage: .*Everyday commands:.*"),
        (["xyz"], 2, "", r"mcp-bridge: unknown command 'xyz'\. See mcp-bridge --help\n"),
        (["instal"], 2, "", r"mcp-bridge: unknown command 'instal'\. Did you mean 'install'\?\n"),
        (["import", "openap"], 2, "", r"mcp-bridge: unknown command 'openap'\. Did you mean 'openapi'\?\n"),
        (["approvals", "lst"], 2, "", r"mcp-bridge: unknown command 'lst'\. Did you mean 'list'\?\n"),
        (["module", "lok"], 2, "", r"mcp-bridge: unknown command 'lok'\. Did you mean 'lock'\?\n"),
        (["run", "server.py"], 2, "", r"mcp-bridge: unknown command 'run'\. Did you mean 'serve'\?\n"),
        (["server.py"], 2, "", ".*Serve it with: mcp-bridge serve server.py\n"),
        (["list", ""], 2, "", r"mcp-bridge: the target is empty\. Leave it out for the default file.*"),
        (
            ["list", "ftp://x/mcp"],
            2,
            "",
            r"mcp-bridge: 'ftp://x/mcp' is not the URL of a server\. It begins with http.*",
        ),
        (["list", "example.com/mcp"], 2, "", r".*no such file or folder\. .* begins with http:// or https://\n"),
        (["list", "folder/mcp"], 2, "", r".*no such file or folder\. Check the path\n"),
        (["login", "x", "tools.py"], 2, "", r".*not a settings file\. Pass the URL of the server, or its name and .*"),
        (["--verson"], 2, "", r"mcp-bridge: 'mcp-bridge' has no option --verson\. Did you mean --version\?\n"),
        (["list", "--xyz"], 2, "", r"mcp-bridge: 'list' has no option --xyz\. See mcp-bridge list --help\n"),
        (["list", "--jsn"], 2, "", r"mcp-bridge: 'list' has no option --jsn\. Did you mean --json\?\n"),
        (["import", "--scop", "user"], 2, "", r"mcp-bridge: 'import clients' has no option --scop\. .*"),
        (["audit", "-x"], 2, "", r"mcp-bridge: 'audit' has no option -x\. .*"),
        (["call"], 2, "", r"mcp-bridge: missing argument '\[TARGET\] TOOL .*'\. See mcp-bridge call --help\n"),
        (["login"], 2, "", r"mcp-bridge: missing argument 'URL.NAME'\. See mcp-bridge login --help\n"),
        (["list", "--tag"], 2, "", r"mcp-bridge: option '--tag' requires an argument\. See .*\n"),
        (["doctor", "a.py", "b.py"], 2, "", r"mcp-bridge: too many arguments: b\.py\. See .*\n"),
        (["dev", "--port", "99999"], 2, "", r"mcp-bridge: invalid value for '--port': .* 65535\. See .*\n"),
    ],
)
def test_help_is_on_stdout_and_usage_errors_are_on_stderr(
    tmp_path: Path, run_here: RunHere, arguments: list[str], code: int, out: str, err: str
) -> None:
    result = run_here(*arguments)
    assert result.code == code, result.err
    assert re.fullmatch(out, result.out, re.DOTALL), result.out
    assert re.fullmatch(err, result.err, re.DOTALL), result.err


def test_the_module_is_the_command(tmp_path: Path) -> None:
    result = run_in_interpreter("validate", TOOLS, "--json", cwd=tmp_path)
    assert result.code == 0
    assert result.json["ok"] is True
