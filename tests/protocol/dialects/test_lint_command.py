"""`mcp-bridge lint`, and the `dialect` key of the settings, as a person meets them."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._engine.plugins import load_source_models
from mcp_bridge._protocol.dialects.dialect import NO_DIALECT, SchemaDialect
from mcp_bridge._protocol.dialects.table import PROFILES
from mcp_bridge._settings import build_json_schema, load
from tests.kits.dialects.dialect_kit import REFERRING, SHAPES

HEAVY = {"mcp", "mcp_types", "starlette", "uvicorn", "httpx2"}
TOOLS = f"""
from mcp_bridge import ToolEntry

print("a tool file that prints")
refers = ToolEntry("refers", "A.", str, {REFERRING!r})
union = ToolEntry("union", "B.", str, {SHAPES!r})
"""


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def answer(self) -> dict[str, Any]:
        made: dict[str, Any] = json.loads(self.out)
        return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text(TOOLS)
    for name, dialect in (("plain", "null"), ("rewritten", "gemini-cli"), ("all", json.dumps(list(PROFILES)))):
        text = f"dialect: {dialect}\nlimits: {{result: 50000}}\nsources: [{{type: python, path: tools.py}}]\n"
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def run(*args: str, cwd: Path) -> Done:
    command = [sys.executable, "-m", "mcp_bridge", *args]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)
    return Done(done.returncode, done.stdout, done.stderr)


def test_what_a_client_would_reject_is_reported_with_its_cure_and_exits_with_1(folder: Path) -> None:
    done = run("lint", "--client", "gemini-cli", cwd=folder)
    assert done.code == 1
    assert done.err == "a tool file that prints\n"
    assert "Gemini CLI (gemini-cli)" in done.out
    assert "  error: tool 'refers': $.inputSchema.properties.home.$ref: `$ref` in 2 places" in done.out
    assert "    Set `dialect: gemini-cli` (google-gemini/gemini-cli#13326" in done.out
    assert "2 tools, 1 client checked; 1 client would reject a tool: gemini-cli" in done.out
    assert "Traceback" not in done.out


def test_every_client_is_checked_by_default_and_the_output_is_json(folder: Path) -> None:
    done = run("lint", "plain.yaml", "--json", cwd=folder)
    assert done.code == 1
    answer = done.answer
    assert answer["clients"] == list(PROFILES)
    assert answer["ok"] is False
    rejecting = {finding["client"] for finding in answer["findings"] if finding["level"] == "error"}
    assert {"gemini-cli", "claude-code", "goose", "opencode"} <= rejecting
    keys = {"client", "level", "rule", "tool", "path", "text", "cure", "source", "original"}
    assert set(answer["findings"][0]) == keys


def test_tools_are_checked_as_the_settings_rewrite_them(folder: Path) -> None:
    done = run("lint", "rewritten.yaml", "--client", "gemini-cli", cwd=folder)
    assert done.code == 0
    assert "no tool is rejected" in done.out
    assert run("lint", "all.yaml", "--json", cwd=folder).answer["ok"] is True


def test_the_name_of_the_server_in_the_client_counts(folder: Path) -> None:
    done = run("lint", "all.yaml", "--client", "cursor", "--server-name", "s" * 58, "--json", cwd=folder)
    assert [(one["tool"], one["rule"]) for one in done.answer["findings"]] == [
        ("refers", "name-length"),
        ("union", "name-length"),
    ]


def test_a_client_that_is_not_known_is_named_with_those_that_are(folder: Path) -> None:
    done = run("lint", "--client", "netscape", cwd=folder)
    assert done.code == 2
    assert done.err.startswith("mcp-bridge: --client: unknown client 'netscape'. Use one of: claude-code, ")


def test_a_client_is_suggested_by_the_beginning_of_its_name(folder: Path) -> None:
    done = run("lint", "--client", "gemini", cwd=folder)
    assert done.code == 2
    assert done.err == "mcp-bridge: --client: unknown client 'gemini'. Did you mean gemini-cli?\n"


@pytest.mark.parametrize(
    ("name", "settings", "called"),
    [
        ("shelf.py", "", "shelf"),
        ("mcp-bridge.yaml", "name: Our shelf\nsources: [{type: python, path: tools.py}]", "Our-shelf"),
    ],
)
def test_the_server_is_called_as_install_would_call_it(name: str, settings: str, called: str, tmp_path: Path) -> None:
    tools = f"from mcp_bridge import ToolEntry\nlong = ToolEntry({'n' * 60!r}, 'A.', str, {{'type': 'object'}})\n"
    (tmp_path / "tools.py").write_text(tools)
    (tmp_path / name).write_text(settings or tools)
    installed = run("install", "goose", name, "--print", "--json", cwd=tmp_path)
    assert json.loads(installed.out)["name"] == called
    [finding] = run("lint", name, "--client", "goose", "--json", cwd=tmp_path).answer["findings"]
    assert f"as '{called}__{'n' * 60}'" in finding["text"]


def test_a_tool_whose_name_was_shortened_is_told_by_its_own_name_too(tmp_path: Path) -> None:
    own = "count_" + "x" * 80
    schema = {"type": "object", "properties": {"all": {"type": "array"}}}
    text = f"from mcp_bridge import ToolEntry\nlong = ToolEntry({own!r}, 'A.', str, {schema!r})\n"
    (tmp_path / "tools.py").write_text(text)
    answer = run("lint", "tools.py", "--client", "claude-code", "--json", cwd=tmp_path).answer
    found = {finding["rule"]: finding for finding in answer["findings"]}
    length, strings = found["name-length"], found["string-arguments"]
    assert length["original"] == own
    assert len(length["tool"]) == 64
    assert f"'{length['tool']}' ({own})" in strings["text"]
    output = run("lint", "tools.py", "--client", "claude-code", cwd=tmp_path).out
    assert f"error: tool '{length['tool']}' ({own}): $.name: " in output


def test_linting_imports_neither_the_sdk_nor_a_web_server(folder: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "mcp_bridge", "lint", "rewritten.yaml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    assert {line.rpartition("|")[2].strip().partition(".")[0] for line in lines} & HEAVY == set()


def test_what_could_not_be_published_is_said_and_is_no_clean_answer(folder: Path) -> None:
    sources = "[{type: python, path: tools.py}, {type: python, path: missing.py}]"
    (folder / "half.yaml").write_text(f"dialect: gemini-cli\nsources: {sources}\n")
    done = run("lint", "half.yaml", "--client", "gemini-cli", "--json", cwd=folder)
    assert done.code == 1
    assert done.answer["ok"] is False
    assert "no such file" in done.answer["problems"]["missing"][0]
    done = run("lint", "half.yaml", "--client", "gemini-cli", cwd=folder)
    assert done.code == 1
    assert "no tool is rejected; some tools are not published, see the problems above" in done.out


# The key `dialect`


@functools.cache
def in_editors() -> jsonschema.Draft202012Validator:
    """The schema of settings files, as editors check them."""
    return jsonschema.Draft202012Validator(build_json_schema(load_source_models()))


def dialect_of(value: Any, folder: Path) -> SchemaDialect:
    path = folder / "settings.json"
    path.write_text(json.dumps({"dialect": value}))
    return build_from_settings(load(path, {})).dialect


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, NO_DIALECT),
        ({}, NO_DIALECT),
        ("gemini-cli", PROFILES["gemini-cli"].dialect),
        (["claude-code", "gemini-cli"], PROFILES["claude-code"].dialect | PROFILES["gemini-cli"].dialect),
        ({"parse_strings": True}, SchemaDialect(parse_strings=True)),
        ({"clients": ["lm-studio"], "omit_empty": True}, SchemaDialect(parse_strings=True, omit_empty=True)),
    ],
)
def test_a_dialect_is_a_client_some_of_them_or_told_in_detail(
    value: Any, expected: SchemaDialect, tmp_path: Path
) -> None:
    assert dialect_of(value, tmp_path) == expected
    assert in_editors().is_valid({"dialect": value})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("gemini", "dialect: expected one of 'claude-code', 'claude-desktop'"),
        (["codex", "curser"], r"dialect\[1\]: expected one of"),
        ({"parse_string": True}, "unknown key 'parse_string', did you mean 'parse_strings'"),
        ({"omit_empty": "sometimes"}, "dialect.omit_empty: expected true or false"),
        (3, "dialect: expected a mapping of keys to values, found the number 3"),
    ],
)
def test_an_invalid_dialect_is_rejected_with_its_place(value: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        dialect_of(value, tmp_path)
    assert not in_editors().is_valid({"dialect": value})


def test_notes_are_shown_only_for_chosen_clients(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text('from mcp_bridge import tool\n\n\n@tool\ndef a() -> int:\n    """A."""\n')
    unchosen = run("lint", cwd=tmp_path)
    assert (unchosen.code, (unchosen.out + unchosen.err).strip()) == (
        0,
        f"1 tool, {len(PROFILES)} clients checked; no tool is rejected",
    )
    chosen = run("lint", "--client", "claude-desktop", cwd=tmp_path)
    assert "note: questions of tools: it cannot ask the user" in chosen.out + chosen.err
    assert "Claude Desktop" in (everything := run("lint", "--client", "all", cwd=tmp_path)).out + everything.err


def test_only_tools_that_clients_list_are_counted(folder: Path) -> None:
    many = "from mcp_bridge import ToolEntry\nTOOLS = [ToolEntry(f'tool_{n}', 'A.', str) for n in range(130)]\n"
    (folder / "many.py").write_text(many + "globals().update((tool.name, tool) for tool in TOOLS)\n")
    (folder / "listed.yaml").write_text("sources: [{type: python, path: many.py}]\n")
    (folder / "searched.yaml").write_text("sources: [{type: python, path: many.py}]\ntool_search: 50\n")
    listed, searched = (
        run("lint", name, "--client", "vscode", "--json", cwd=folder).answer["findings"]
        for name in ("listed.yaml", "searched.yaml")
    )
    assert "tool-count" in {finding["rule"] for finding in listed}
    assert "tool-count" not in {finding["rule"] for finding in searched}
