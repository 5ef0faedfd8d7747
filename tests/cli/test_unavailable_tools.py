"""`call` says why a tool cannot be called, if it is not simply unknown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.kits.cli.cli_running import run


def write(folder: Path, settings: dict[str, Any]) -> str:
    (folder / "t.py").write_text("from mcp_bridge import tool\n\n@tool\ndef echo(text: str) -> str:\n    return text\n")
    file = folder / "settings.json"
    file.write_text(json.dumps(settings))
    return str(file)


def test_a_tool_of_a_server_that_is_not_available_names_the_server_and_the_reason(tmp_path: Path) -> None:
    done = run(
        "call", write(tmp_path, {"mcpServers": {"gone": {"command": "no-such-program"}}}), "gone__x", cwd=tmp_path
    )
    assert (done.code, done.out) == (1, "")
    assert "The server 'gone' is not available: the program 'no-such-program' was not found." in done.err


def test_a_tool_for_clients_only_is_not_called_unknown(tmp_path: Path) -> None:
    source = {"type": "python", "path": "t.py"}
    file = write(tmp_path, {"tool_search": {"above": 0}, "sources": [source]})
    done = run("call", file, "search_tools", "query=x", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "'search_tools' exists only for MCP clients of a running server" in done.err
