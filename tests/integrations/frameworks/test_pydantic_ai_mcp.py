"""pydantic-ai toolsets with MCP servers, served by the bridge."""

from __future__ import annotations

import base64

from tests.kits.frameworks.environments import require_framework
from tests.kits.frameworks.framework_clients import connect_to_objects, run_tool

require_framework("fastmcp")
require_framework("pydantic_ai")

from fastmcp import FastMCP
from fastmcp.utilities.types import Image
from mcp_types import ToolAnnotations
from pydantic_ai.mcp import MCPToolset

PIXEL = b"\x89PNG\r\n\x1a\n0000"


async def test_a_server_in_a_toolset_has_the_same_schemas_and_results() -> None:
    server = FastMCP("behind")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def twice(number: int) -> int:
        """Doubles."""
        return 2 * number

    @server.tool
    def picture() -> Image:
        return Image(data=PIXEL, format="png")

    @server.tool
    def breaks() -> None:
        raise ValueError("no such mountain")

    async with connect_to_objects(MCPToolset(server).prefixed("far")) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"far_twice", "far_picture", "far_breaks"}
        assert tools["far_twice"].description == "Doubles."
        assert tools["far_twice"].annotations.read_only_hint is True
        result = await client.call_tool("far_twice", {"number": 4})
        assert (result.structured_content, result.content[0].text) == ({"result": 8}, "8")
        (block,) = (await client.call_tool("far_picture", {})).content
        assert base64.b64decode(block.data) == PIXEL
        text, is_error = await run_tool(client, "far_breaks")
    assert is_error
    assert "no such mountain" in text
