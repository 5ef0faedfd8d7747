"""FastMCP servers in this process, as clients of MCP see and call their tools."""

from __future__ import annotations

from contextlib import asynccontextmanager

import anyio
import pytest

from mcp_bridge._integrations.frameworks.discovery import convert_toolbox
from mcp_bridge.testing import connect
from tests.kits.frameworks.environments import require_framework
from tests.kits.frameworks.framework_clients import build_bridge, connect_to_objects, run_tool

require_framework("fastmcp")

import fastmcp
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.tools import Tool, ToolResult
from fastmcp.utilities.types import Audio, Image
from mcp_types import Icon, ToolAnnotations, ToolListChangedNotification
from pydantic import BaseModel

from tests.kits.constants import TIMEOUT

PIXEL = b"\x89PNG\r\n\x1a\n0000"


class Place(BaseModel):
    name: str
    height: int


@pytest.fixture
def server() -> FastMCP:
    return FastMCP("mountains")


async def test_a_tool_is_listed_with_all_its_fields(server: FastMCP) -> None:
    @server.tool(
        title="Highest",
        tags={"alps"},
        icons=[Icon(src="https://example.org/a.png")],
        annotations=ToolAnnotations(read_only_hint=True),
        meta={"unit": "m"},
    )
    def highest(country: str, count: int = 1) -> Place:
        """Tells the highest peak."""
        return Place(name=f"{country} {count}", height=4634)

    async with connect_to_objects(server) as client:
        (tool,) = (await client.list_tools()).tools
        result = await client.call_tool("highest", {"country": "CH"})
    assert (tool.name, tool.title, tool.description) == ("highest", "Highest", "Tells the highest peak.")
    assert tool.input_schema["required"] == ["country"]
    assert tool.input_schema["properties"]["count"]["default"] == 1
    assert tool.output_schema["properties"]["height"]["type"] == "integer"
    assert tool.annotations.read_only_hint is True
    assert tool.icons[0].src == "https://example.org/a.png"
    assert tool.meta["unit"] == "m"
    assert result.structured_content == {"name": "CH 1", "height": 4634}


async def test_a_value_that_fastmcp_wraps_arrives_wrapped(server: FastMCP) -> None:
    @server.tool
    def twice(number: int) -> int:
        return 2 * number

    async with connect_to_objects(server) as client:
        result = await client.call_tool("twice", {"number": 4})
    assert result.structured_content == {"result": 8}
    assert result.content[0].text == "8"


async def test_images_audio_and_several_blocks_arrive(server: FastMCP) -> None:
    @server.tool
    def several() -> ToolResult:
        blocks = ["one", Image(data=PIXEL, format="png"), Audio(data=b"RIFF", format="wav")]
        return ToolResult(content=blocks, structured_content={"n": 3}, meta={"took": 1})

    async with connect_to_objects(server) as client:
        result = await client.call_tool("several", {})
    assert [block.type for block in result.content] == ["text", "image", "audio"]
    assert result.meta["took"] == 1


async def test_an_error_of_the_server_arrives_verbatim(server: FastMCP) -> None:
    @server.tool
    def breaks() -> None:
        raise ToolError("no such mountain, try the French name")

    async with connect_to_objects(server) as client:
        assert await run_tool(client, "breaks") == ("no such mountain, try the French name", True)


async def test_an_error_has_its_images(server: FastMCP) -> None:
    @server.tool
    def breaks() -> ToolResult:
        return ToolResult(content=["look", Image(data=PIXEL, format="png")], is_error=True)

    async with connect_to_objects(server) as client:
        result = await client.call_tool("breaks", {})
    assert result.is_error
    assert [block.type for block in result.content] == ["text", "image"]
    assert result.content[0].text == "look"


async def test_masked_errors_of_a_server_are_not_shown() -> None:
    server = FastMCP("quiet", mask_error_details=True)

    @server.tool
    def breaks() -> None:
        raise ValueError("the password is 1234")

    async with connect_to_objects(server) as client:
        text, is_error = await run_tool(client, "breaks")
    assert is_error
    assert "1234" not in text


async def test_invalid_arguments_do_not_reach_the_server(server: FastMCP) -> None:
    @server.tool
    def twice(number: int) -> int:
        raise AssertionError("reached")

    async with connect_to_objects(server) as client:
        text, is_error = await run_tool(client, "twice", number="four")
    assert is_error
    assert "number" in text
    assert "reached" not in text


async def test_progress_reaches_the_client(server: FastMCP) -> None:
    @server.tool
    async def climbs(ctx: Context) -> str:
        await ctx.report_progress(1, 2, "half way")
        await ctx.report_progress(2, 2)
        return "up"

    reports: list[tuple[float, float | None, str | None]] = []
    has_arrived = anyio.Event()

    async def progress(at: float, total: float | None, message: str | None) -> None:
        reports.append((at, total, message))
        if at == total:
            has_arrived.set()

    async with connect_to_objects(server) as client:
        await client.call_tool("climbs", {}, progress_callback=progress)
        with anyio.fail_after(TIMEOUT):
            await has_arrived.wait()
    assert reports == [(1, 2, "half way"), (2, 2, None)]


async def test_clients_are_notified_of_a_tool_that_is_added_later(server: FastMCP) -> None:
    def later() -> str:
        return "here"

    @server.tool
    async def grows(ctx: Context) -> str:
        server.add_tool(Tool.from_function(later))
        await ctx.send_notification(ToolListChangedNotification())
        return "done"

    is_notified = anyio.Event()

    async def handle_message(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            is_notified.set()

    async with connect_to_objects(server, mode="legacy", message_handler=handle_message) as client:
        assert await run_tool(client, "grows") == ("done", False)
        with anyio.fail_after(TIMEOUT):
            await is_notified.wait()
        assert await run_tool(client, "later") == ("here", False)


async def test_a_cancelled_call_is_cancelled_in_the_server(server: FastMCP) -> None:
    has_begun, has_ended = anyio.Event(), anyio.Event()

    @server.tool
    async def waits() -> None:
        has_begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            has_ended.set()

    async with connect_to_objects(server) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(client.call_tool, "waits", {})
        await has_begun.wait()
        tasks.cancel_scope.cancel()
    with anyio.fail_after(TIMEOUT):
        await has_ended.wait()


async def test_the_lifespan_of_the_server_is_that_of_the_bridge() -> None:
    steps: list[str] = []

    @asynccontextmanager
    async def lifespan(_):
        steps.append("open")
        yield {}
        steps.append("closed")

    server = FastMCP("living", lifespan=lifespan)

    @server.tool
    def nothing() -> None: ...

    async with connect_to_objects(server) as client:
        await client.call_tool("nothing", {})
        assert steps == ["open"]
    assert steps == ["open", "closed"]


def test_a_server_is_recognised_by_its_class(server: FastMCP) -> None:
    # An object with every attribute is no server.
    class AnyAttribute:
        def __getattr__(self, name: str) -> str:
            return name

    assert convert_toolbox(server) is not None
    assert not any(convert_toolbox(value) for value in (AnyAttribute(), len, FastMCP, None))


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_the_problem_on_trio_has_advice(server: FastMCP) -> None:
    bridge = build_bridge(server)
    async with connect(bridge):
        assert "only on asyncio" in bridge.problems["objects"][0]


async def test_a_server_that_cannot_be_opened_completely_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []

    @asynccontextmanager
    async def lifespan(_: FastMCP):
        steps.append("open")
        yield
        steps.append("closed")

    class SecondFails(fastmcp.Client):
        async def __aenter__(self):
            # The first client has opened the server.
            if steps:
                raise OSError("no second client")
            return await super().__aenter__()

    monkeypatch.setattr(fastmcp, "Client", SecondFails)
    toolbox = convert_toolbox(FastMCP("closing", lifespan=lifespan))
    assert toolbox is not None
    with pytest.raises(OSError, match="no second client"):
        async with toolbox:
            raise AssertionError("the block ran")
    assert steps == ["open", "closed"]
