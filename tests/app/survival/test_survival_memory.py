"""The memory of a server levels off, as its caches are bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.client.server_process import HttpServerProcess
from tests.kits.constants import HTTP_HEADERS, STATELESS, make_envelope
from tests.kits.survival.survival_kit import SECOND_WAY, run_server

TOOLS = """
from mcp_bridge import CallContext, tool

@tool
async def letters(count: int) -> str:
    return "x" * count

@tool
async def asks(ctx: CallContext) -> str:
    return str(await ctx.ask("How many?", int))
"""
MIB = 1024 * 1024
SIZES = (MIB // 4, MIB - 1, 3 * MIB, 6 * MIB)
ASKING = make_envelope({"elicitation": {"form": {}}})


def ask(server: HttpServerProcess) -> None:
    """Call a tool with a question, and never send the answer."""
    params = {"name": "asks", "arguments": {}, "_meta": ASKING}
    headers = {**HTTP_HEADERS, "MCP-Protocol-Version": STATELESS, "Mcp-Method": "tools/call", "Mcp-Name": "asks"}
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    assert server.http.post("/mcp", json=message, headers=headers).status_code == 200


def load(server: HttpServerProcess, rounds: int) -> None:
    for number in range(rounds):
        if number % 10 == 0:
            server.headers["Mcp-Session-Id"] = server.open_session()
        ask(server)
        assert len(server.get_result("letters", count=SIZES[number % len(SIZES)])["content"][0]["text"]) >= MIB // 4
        assert server.get_text("echo", text="small") == "small"


def test_memory_levels_off_under_large_results_and_questions_without_answers(tmp_path: Path) -> None:
    with run_server(SECOND_WAY, tmp_path, TOOLS) as server:
        # The first calls fill the caches.
        load(server, 100)
        full = server.rss
        load(server, 300)
        print(f"{full >> 20} MiB, then {server.rss >> 20} MiB")
        assert server.rss < 1.25 * full
        assert server.rss < 256 * MIB
