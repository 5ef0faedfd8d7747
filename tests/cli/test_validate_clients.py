"""`validate --client`: problems of the tools for clients, after the rewriting by the setting `dialect`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_bridge._protocol.dialects.table import PROFILES
from tests.kits.cli.cli_running import RunHere, run
from tests.kits.dialects.dialect_kit import REFERRING, SHAPES

HEAVY = {"mcp", "mcp_types", "starlette", "uvicorn", "httpx2"}
TOOLS = f"""
from mcp_bridge import ToolEntry

print("a tool file that prints")
refers = ToolEntry("refers", "A.", str, {REFERRING!r})
union = ToolEntry("union", "B.", str, {SHAPES!r})
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text(TOOLS)
    for name, dialect in (("plain", "null"), ("rewritten", "gemini-cli"), ("all", json.dumps(list(PROFILES)))):
        text = f"dialect: {dialect}\nlimits: {{result: 50000}}\nsources: [{{type: python, path: tools.py}}]\n"
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def test_a_tool_that_a_client_would_reject_is_reported_with_its_fix(folder: Path) -> None:
    result = run("validate", "--client", "gemini-cli", cwd=folder)
    assert result.code == 1
    assert result.err == "a tool file that prints\n"
    assert "Gemini CLI (gemini-cli)" in result.out
    assert "  error: tool 'refers': $.inputSchema.properties.home.$ref: `$ref` in 2 places" in result.out
    assert "    Set `dialect: gemini-cli` (google-gemini/gemini-cli#13326" in result.out
    assert result.out.endswith("2 tools, no problems\n1 client checked; 1 client would reject a tool: gemini-cli\n")


def test_all_clients_are_checked_and_the_output_is_json(folder: Path) -> None:
    result = run("validate", "plain.yaml", "--client", "all", "--json", cwd=folder)
    assert result.code == 1
    assert result.json["clients"] == list(PROFILES)
    assert result.json["ok"] is False
    rejecting = {finding["client"] for finding in result.json["findings"] if finding["level"] == "error"}
    assert {"gemini-cli", "claude-code", "goose", "opencode"} <= rejecting
    keys = {"client", "level", "rule", "tool", "path", "text", "cure", "dialect", "source", "original"}
    assert set(result.json["findings"][0]) == keys


def test_tools_are_checked_as_the_settings_rewrite_them(run_here: RunHere, folder: Path) -> None:
    result = run_here("validate", "rewritten.yaml", "--client", "gemini-cli")
    assert result.code == 0
    assert "no tool is rejected" in result.out
    assert run_here("validate", "all.yaml", "--client", "all").code == 0


def test_the_name_of_the_server_in_the_client_is_part_of_the_names_of_tools(run_here: RunHere, folder: Path) -> None:
    result = run_here("validate", "all.yaml", "--client", "cursor", "--server-name", "s" * 58, "--json")
    assert [(finding["tool"], finding["rule"]) for finding in result.json["findings"]] == [
        ("refers", "name-length"),
        ("union", "name-length"),
    ]


@pytest.mark.parametrize(
    ("client", "hint"),
    [("netscape", "Use one of: amp, "), ("gemini", "Did you mean gemini-cli?\n")],
)
def test_an_unknown_client_is_an_error_with_a_hint(run_here: RunHere, client: str, hint: str) -> None:
    result = run_here("validate", "--client", client)
    assert result.code == 2
    assert result.err.startswith(f"mcp-bridge: --client: unknown client '{client}'. {hint}")


@pytest.mark.parametrize(
    ("name", "settings", "server_name"),
    [
        ("shelf.py", "", "shelf"),
        ("mcp-bridge.yaml", "name: Our shelf\nsources: [{type: python, path: tools.py}]", "Our-shelf"),
    ],
)
def test_the_server_has_the_name_that_install_would_choose(
    run_here: RunHere, name: str, settings: str, server_name: str, tmp_path: Path
) -> None:
    tools = f"from mcp_bridge import ToolEntry\nlong = ToolEntry({'n' * 60!r}, 'A.', str, {{'type': 'object'}})\n"
    (tmp_path / "tools.py").write_text(tools)
    (tmp_path / name).write_text(settings or tools)
    assert run_here("install", "goose", name, "--print", "--json").json["name"] == server_name
    [finding] = run_here("validate", name, "--client", "goose", "--json").json["findings"]
    assert f"as '{server_name}__{'n' * 60}'" in finding["text"]


def test_a_tool_with_a_shortened_name_is_reported_under_both_names(run_here: RunHere, tmp_path: Path) -> None:
    original = "count_" + "x" * 80
    schema = {"type": "object", "properties": {"all": {"type": "array"}}}
    text = f"from mcp_bridge import ToolEntry\nlong = ToolEntry({original!r}, 'A.', str, {schema!r})\n"
    (tmp_path / "tools.py").write_text(text)
    result = run_here("validate", "tools.py", "--client", "claude-code", "--json").json
    findings = {finding["rule"]: finding for finding in result["findings"]}
    length, strings = findings["name-length"], findings["string-arguments"]
    assert length["original"] == original
    assert len(length["tool"]) == 64
    assert f"'{length['tool']}' ({original})" in strings["text"]
    output = run_here("validate", "tools.py", "--client", "claude-code").out
    assert f"error: tool '{length['tool']}' ({original}): $.name: " in output


def test_the_check_imports_neither_the_sdk_nor_a_web_server(folder: Path) -> None:
    words = ["validate", "rewritten.yaml", "--client", "all"]
    command = [sys.executable, "-X", "importtime", "-m", "mcp_bridge", *words]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    lines = [line for line in result.stderr.splitlines() if line.startswith("import time:")]
    assert {line.rpartition("|")[2].strip().partition(".")[0] for line in lines} & HEAVY == set()


def test_the_tools_of_other_sources_are_checked_if_a_source_has_a_problem(folder: Path) -> None:
    sources = "[{type: python, path: tools.py}, {type: python, path: missing.py}]"
    (folder / "half.yaml").write_text(f"dialect: gemini-cli\nsources: {sources}\n")
    result = run("validate", "half.yaml", "--client", "gemini-cli", "--json", cwd=folder)
    assert result.code == 1
    assert result.json["ok"] is False
    assert "no such file" in result.json["problems"]["missing"][0]
    result = run("validate", "half.yaml", "--client", "gemini-cli", cwd=folder)
    assert result.code == 1
    assert result.out.endswith("2 tools; see the problems above\n1 client checked; no tool is rejected\n")


def test_notes_are_shown_only_for_a_single_client(run_here: RunHere, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text('from mcp_bridge import tool\n\n\n@tool\ndef a() -> int:\n    """A."""\n')
    every = run_here("validate", "--client", "all")
    summary = f"1 tool, no problems\n{len(PROFILES)} clients checked; no tool is rejected\n"
    assert (every.code, every.out, every.err) == (0, summary, "")
    single = run_here("validate", "--client", "claude-desktop")
    assert "note: questions of tools: it cannot ask the user" in single.out


def test_only_tools_that_clients_list_are_counted(run_here: RunHere, folder: Path) -> None:
    many = "from mcp_bridge import ToolEntry\nTOOLS = [ToolEntry(f'tool_{n}', 'A.', str) for n in range(130)]\n"
    (folder / "many.py").write_text(many + "globals().update((tool.name, tool) for tool in TOOLS)\n")
    (folder / "listed.yaml").write_text("sources: [{type: python, path: many.py}]\n")
    (folder / "searched.yaml").write_text("sources: [{type: python, path: many.py}]\ntool_search: 50\n")
    findings, search_findings = (
        run_here("validate", name, "--client", "vscode", "--json").json["findings"]
        for name in ("listed.yaml", "searched.yaml")
    )
    assert "tool-count" in {finding["rule"] for finding in findings}
    assert "tool-count" not in {finding["rule"] for finding in search_findings}
