"""`call` with a file of servers: it waits only for the server that may have the tool, and reports unavailable ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kits.cli.cli_running import run
from tests.kits.upstream.upstream_kit import write_command, write_settings

SERVERS = {"good": write_command(), "slow": write_command("hang at start", start_timeout=1000)}


@pytest.mark.parametrize(
    ("tool", "expected"),
    [("good__echo", "hello"), ("good__nothing", "Did you mean 'good__echo'?")],
    ids=["known", "unknown"],
)
def test_a_server_that_does_not_start_delays_no_call_of_another(tmp_path: Path, tool: str, expected: str) -> None:
    file = write_settings(tmp_path, SERVERS)
    result = run("call", file, tool, "text=hello", cwd=tmp_path, env={"XDG_STATE_HOME": str(tmp_path)})
    assert expected in result.out + result.err


def write_file(folder: Path, settings: dict[str, Any]) -> str:
    (folder / "t.py").write_text("from mcp_bridge import tool\n\n@tool\ndef echo(text: str) -> str:\n    return text\n")
    file = folder / "settings.json"
    file.write_text(json.dumps(settings))
    return str(file)


def test_a_tool_of_a_server_that_is_not_available_names_the_server_and_the_reason(tmp_path: Path) -> None:
    result = run(
        "call", write_file(tmp_path, {"mcpServers": {"gone": {"command": "no-such-program"}}}), "gone__x", cwd=tmp_path
    )
    assert (result.code, result.out) == (1, "")
    assert "The server 'gone' is not available: the program 'no-such-program' was not found." in result.err


def test_a_tool_for_clients_only_is_not_called_unknown(tmp_path: Path) -> None:
    source = {"type": "python", "path": "t.py"}
    file = write_file(tmp_path, {"tool_search": {"above": 0}, "sources": [source]})
    result = run("call", file, "search_tools", "query=x", cwd=tmp_path)
    assert (result.code, result.out) == (2, "")
    assert "'search_tools' exists only for MCP clients of a running server" in result.err
