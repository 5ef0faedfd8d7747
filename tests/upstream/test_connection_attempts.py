"""An unreachable server is used soon after it has started."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_bridge._sources.upstream import source as upstream_source
from tests.kits.upstream.upstream_kit import (
    call_text,
    connect_gateway,
    find_free_port,
    run_http_server,
    run_source,
    wait_for_state,
    wait_for_tool,
)


@pytest.fixture(autouse=True)
def rare_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make attempts so rare that only a client can cause one."""
    monkeypatch.setattr(upstream_source, "FIRST_WAIT", 600.0)
    monkeypatch.setattr(upstream_source, "MAX_WAIT", 600.0)


async def test_a_client_that_lists_the_tools_causes_an_attempt(tmp_path: Path) -> None:
    port = find_free_port()
    async with run_source({"url": f"http://127.0.0.1:{port}/mcp"}, tmp_path) as (source, client):
        await wait_for_state(source, "broken")
        with run_http_server(port=port):
            await wait_for_tool(client, "echo")
            assert await call_text(client, "echo") == "hello"


async def test_a_call_of_a_tool_that_is_not_known_yet_waits_for_an_attempt(tmp_path: Path) -> None:
    port = find_free_port()
    async with connect_gateway(tmp_path, {"late": {"url": f"http://127.0.0.1:{port}/mcp"}}) as client:
        assert "is not available" in await call_text(client, "late__echo")
        with run_http_server(port=port):
            assert await call_text(client, "late__echo") == "hello"


async def test_a_client_that_searches_tools_causes_an_attempt(tmp_path: Path) -> None:
    port = find_free_port()
    servers = {"late": {"url": f"http://127.0.0.1:{port}/mcp"}}
    (tmp_path / "tools.py").write_text(
        "from mcp_bridge import tool\n@tool\ndef one(): 'One.'\n@tool\ndef two(): 'Two.'\n"
    )
    sources = [{"type": "python", "path": "tools.py"}]
    async with connect_gateway(tmp_path, servers, sources=sources, tool_search={"above": 1}) as client:
        with run_http_server(port=port):
            while True:
                result = await client.call_tool("search_tools", {"query": "return the text"})
                if "late__echo" in str(result.structured_content):
                    break
