"""Results and failures of upstreams reach the client unchanged, between both eras."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client

from tests.kits.upstream.everything_kit import ERAS, connect_to
from tests.kits.upstream.result_server import EMBEDDED, RESOURCE
from tests.kits.upstream.upstream_kit import Json

pytestmark = pytest.mark.anyio
SERVER = Path(__file__).parents[1] / "kits/upstream/result_server.py"
CODE = "mcp-bridge/code"
LINK = {
    "type": "resource_link", "uri": "note://one", "name": "one", "title": "One", "mimeType": "text/plain",
    "icons": [{"src": "https://example.com/icon.png"}], "_meta": {"example.com/link": 3},
}  # fmt: skip
FAILURE: Json = {
    "content": [
        {"type": "text", "text": "It went wrong.", "annotations": {"audience": ["user"]}},
        EMBEDDED,
        {"type": "text", "text": "Try again.", "_meta": {"example.com/block": 1}},
    ],
    "structuredContent": {"reason": "fire", "line": 3},
    "isError": True,
    "_meta": {CODE: "rate_limited", "example.com/result": {"a": [1]}},
}


@pytest.fixture(params=ERAS)
def mode(request: pytest.FixtureRequest) -> Any:
    """Return the era of the client."""
    return request.param


@pytest.fixture(params=["handshake", "stateless"])
async def client(request: pytest.FixtureRequest, mode: str, tmp_path: Path) -> AsyncIterator[Client]:
    """Connect a client to a bridge in front of the server."""
    entry = {"command": sys.executable, "args": ["-I", "-S", str(SERVER), request.param]}
    async with connect_to(entry, tmp_path, mode) as session:
        yield session


async def repeat(client: Client, result: Json) -> Json:
    """Make the server return this result. Return the result of the client, without the name of the bridge."""
    result_of_call = await client.call_tool("repeat", {"result": result})
    data: Json = result_of_call.model_dump(by_alias=True, mode="json", exclude_none=True)
    data.pop("resultType", None)
    data["_meta"] = {key: value for key, value in (result_of_call.meta or {}).items() if "serverInfo" not in key}
    return data


async def test_a_failure_arrives_unchanged(client: Client) -> None:
    assert await repeat(client, FAILURE) == FAILURE


async def test_a_failure_without_a_code_gets_one(client: Client) -> None:
    result = await repeat(client, {"content": [{"type": "text", "text": "No."}], "isError": True})
    assert result["content"] == [{"type": "text", "text": "No."}]
    assert result["_meta"] == {CODE: "tool_error"}


async def test_a_failure_without_text_arrives_unchanged(client: Client) -> None:
    result = await repeat(client, {"content": [EMBEDDED], "isError": True})
    assert result["content"] == [EMBEDDED]


async def test_resources_and_links_in_a_result_arrive_unchanged(client: Client) -> None:
    result = {"content": [EMBEDDED, LINK], "isError": False, "_meta": {CODE: "mine"}}
    assert await repeat(client, result) == result


async def test_resources_and_prompts_keep_the_meta_of_a_resource(client: Client) -> None:
    (contents,) = (await client.read_resource("note://one")).contents
    (message,) = (await client.get_prompt("greet")).messages
    assert contents.model_dump(by_alias=True, mode="json", exclude_none=True) == RESOURCE
    assert message.content.model_dump(by_alias=True, mode="json", exclude_none=True) == EMBEDDED
