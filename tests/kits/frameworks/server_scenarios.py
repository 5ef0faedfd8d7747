"""The common behaviour of servers of the MCP SDK and of FastMCP in a served file.

The test file of each imports these tests. Its fixture `kind` returns the beginning of such a file.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import CreateMessageResult, ElicitResult, ListRootsResult, Root, TextContent

from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._app.factory import build_from_file
from mcp_bridge._sources.python.source import PythonSource
from mcp_bridge.testing import connect

SDK = """
from mcp.server.mcpserver import MCPServer as Server, Context
from mcp.server.mcpserver.exceptions import ToolError
"""
FASTMCP = """
from fastmcp import FastMCP as Server, Context
from fastmcp.exceptions import ToolError
"""
ERAS = ["legacy", "auto"]


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def serve(tmp_path: Path) -> Callable[..., Any]:
    """Serve a file with this text, as `mcp-bridge serve` does, to an official client."""

    @asynccontextmanager
    async def serve_text(text: str, **options: Any) -> AsyncIterator[Client]:
        path = tmp_path / "server.py"
        path.write_text(text, "utf-8")
        bridge = Bridge(sources=[AttachedSource(source=PythonSource("server", path=path))])
        async with connect(bridge, **options) as client:
            assert [line for lines in bridge.problems.values() for line in lines] == []
            yield client

    return serve_text


async def call(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    return "\n".join(block.text for block in result.content if block.type == "text")


async def test_tools_resources_templates_and_prompts_are_all_served(serve: Any, kind: str, era: str) -> None:
    text = f"""{kind}
mcp = Server("demo")

@mcp.tool(title="Sum")
def add(a: int, b: int = 2) -> int:
    "Add two numbers."
    return a + b

@mcp.resource("config://app", mime_type="application/json")
def config() -> str:
    return '{{"debug": true}}'

@mcp.resource("users://{{name}}/profile")
def profile(name: str) -> str:
    return f"I am {{name}}"

@mcp.prompt(title="Review")
def review(code: str) -> str:
    "Review code."
    return f"Please review {{code}}"
"""
    async with serve(text, mode=era) as client:
        (tool,) = (await client.list_tools()).tools
        added = await client.call_tool("add", {"a": 1})
        (resource,) = (await client.list_resources()).resources
        (template,) = (await client.list_resource_templates()).resource_templates
        (prompt,) = (await client.list_prompts()).prompts
        (contents,) = (await client.read_resource("config://app")).contents
        (result,) = (await client.read_resource("users://Ann%20B/profile")).contents
        got = await client.get_prompt("review", {"code": "x"})
    assert (tool.title, tool.description) == ("Sum", "Add two numbers.")
    assert (added.structured_content, added.content[0].text) == ({"result": 3}, "3")
    assert (resource.mime_type, template.uri_template, prompt.title) == (
        "application/json", "users://{name}/profile", "Review",
    )  # fmt: skip
    assert (contents.text, contents.mime_type, result.text) == ('{"debug": true}', "application/json", "I am Ann B")
    assert got.messages[0].content.text == "Please review x"


async def test_the_context_asks_the_user_in_both_eras(serve: Any, kind: str, era: str) -> None:
    text = f"""{kind}
from pydantic import BaseModel
mcp = Server("demo")

class Booking(BaseModel):
    date: str

@mcp.tool()
async def book(ctx: Context) -> str:
    answer = await ctx.elicit("When?", Booking)
    return f"{{answer.action}} {{answer.data.date}}" if answer.action == "accept" else answer.action
"""
    answers = iter([ElicitResult(action="accept", content={"date": "Monday"}), ElicitResult(action="decline")])

    async def answer(*_: Any) -> ElicitResult:
        return next(answers)

    async with serve(text, mode=era, elicitation_callback=answer) as client:
        assert [await call(client, "book"), await call(client, "book")] == ["accept Monday", "decline"]
    async with serve(text, mode=era) as client:
        if era == "legacy":
            assert "elicitation" in await call(client, "book")
        else:
            with pytest.raises(MCPError, match="elicitation"):
                await client.call_tool("book", {})


async def test_progress_and_log_messages_reach_the_client(serve: Any, kind: str) -> None:
    text = f"""{kind}
mcp = Server("demo")

@mcp.tool()
async def work(ctx: Context) -> str:
    await ctx.info("started")
    await ctx.report_progress(1, 2, "half")
    return ctx.request_id
"""
    logged, reported = [], []

    async def log(message: Any) -> None:
        logged.append((message.level, message.data["msg"] if isinstance(message.data, dict) else message.data))

    async def report(*progress: Any) -> None:
        reported.append(progress)

    async with serve(text, mode="legacy", logging_callback=log) as client:
        await client.set_logging_level("info")
        await client.call_tool("work", {}, progress_callback=report)
    assert (logged, reported) == ([("info", "started")], [(1, 2, "half")])


async def test_the_session_of_the_context_samples_and_lists_roots(serve: Any, kind: str, era: str) -> None:
    text = f"""{kind}
from mcp_types import SamplingMessage, TextContent
mcp = Server("demo")

@mcp.tool()
async def think(ctx: Context) -> str:
    words = SamplingMessage(role="user", content=TextContent(type="text", text="Hello"))
    said = await ctx.session.create_message([words], max_tokens=10)
    roots = await ctx.session.list_roots()
    return f"{{said.content.text}} {{roots.roots[0].uri}}"
"""

    async def sample(*_: Any) -> CreateMessageResult:
        return CreateMessageResult(role="assistant", content=TextContent(type="text", text="Hi"), model="m")

    async def list_roots(*_: Any) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri="file:///work")])

    async with serve(text, mode=era, sampling_callback=sample, list_roots_callback=list_roots) as client:
        assert await call(client, "think") == "Hi file:///work"


async def test_a_lifespan_is_entered_once_and_its_value_reaches_tools(serve: Any, kind: str, tmp_path: Path) -> None:
    state = "ctx.request_context.lifespan_context" if kind is SDK else "ctx.lifespan_context"
    text = f"""{kind}
from contextlib import asynccontextmanager
from pathlib import Path
import anyio
log = Path({str(tmp_path / "log")!r}).open("a")

@asynccontextmanager
async def lifespan(server):
    print("open", file=log, flush=True)
    yield {{"db": "connected"}}
    await anyio.sleep(0)
    print("closed", file=log, flush=True)
    log.close()

mcp = Server("demo", lifespan=lifespan)

@mcp.tool()
async def status(ctx: Context) -> str:
    return {state}["db"]
"""
    async with serve(text) as client:
        assert [await call(client, "status"), await call(client, "status")] == ["connected", "connected"]
        assert (tmp_path / "log").read_text() == "open\n"
    assert (tmp_path / "log").read_text() == "open\nclosed\n"


async def test_errors_for_the_model_arrive_and_crashes_stay_on_the_server(serve: Any, kind: str) -> None:
    text = f"""{kind}
mcp = Server("demo")

@mcp.tool()
def wrong() -> str:
    raise ToolError("no such city, try Oslo")

@mcp.tool()
async def crash(ctx: Context) -> str:
    raise ValueError("the password is 1234")

@mcp.tool()
def crash_in_thread() -> str:
    raise ValueError("the password is 1234")
"""
    async with serve(text) as client:
        assert "no such city, try Oslo" in await call(client, "wrong")
        assert "1234" not in await call(client, "crash") + await call(client, "crash_in_thread")


async def test_protocol_errors_of_resources_and_prompts_keep_their_text(serve: Any, kind: str, era: str) -> None:
    text = f"""{kind}
from mcp.shared.exceptions import MCPError
mcp = Server("demo")

@mcp.resource("files://{{name}}")
def read(name: str) -> str:
    raise MCPError(-32602, f"there is no file {{name}}")

@mcp.prompt()
def ask() -> str:
    raise MCPError(-32603, "the archive is closed")
"""
    async with serve(text, mode=era) as client:
        with pytest.raises(MCPError, match="there is no file x") as resource:
            await client.read_resource("files://x")
        with pytest.raises(MCPError, match="the archive is closed"):
            await client.get_prompt("ask")
    assert resource.value.code == -32602


async def test_a_tool_can_require_a_capability_of_the_client(serve: Any, kind: str) -> None:
    text = f"""{kind}
from mcp.shared.exceptions import MCPError
mcp = Server("demo")

@mcp.tool()
def sample() -> str:
    raise MCPError(-32021, "no sampling", {{"requiredCapabilities": {{"sampling": {{}}}}}})
"""
    async with serve(text, mode="auto") as client:
        with pytest.raises(MCPError) as exc_info:
            await client.call_tool("sample", {})
    assert (exc_info.value.code, exc_info.value.data["requiredCapabilities"]) == (-32021, {"sampling": {}})


async def test_a_tool_reads_a_resource_of_its_server(serve: Any, kind: str) -> None:
    first = "list(found)[0].content" if kind is SDK else "found.contents[0].content"
    text = f"""{kind}
mcp = Server("demo")

@mcp.resource("data://one")
def one() -> str:
    return "1"

@mcp.tool()
async def read(ctx: Context) -> str:
    found = await ctx.read_resource("data://one")
    return {first}
"""
    async with serve(text) as client:
        assert await call(client, "read") == "1"


async def test_a_tool_that_returns_an_input_request_is_asked_again_with_the_answers(
    serve: Any, kind: str, era: str
) -> None:
    text = f"""{kind}
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult
mcp = Server("demo")

@mcp.tool()
async def greet(ctx: Context) -> str | InputRequiredResult:
    if ctx.input_responses:
        return f"Hello {{ctx.input_responses['name'].content['name']}}, {{ctx.request_state}}"
    schema = {{"type": "object", "properties": {{"name": {{"type": "string"}}}}}}
    form = ElicitRequest(params=ElicitRequestFormParams(message="Name?", requested_schema=schema))
    return InputRequiredResult(input_requests={{"name": form}}, request_state="round 2")
"""

    async def answer(*_: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"name": "Ann"})

    async with serve(text, mode=era, elicitation_callback=answer) as client:
        assert await call(client, "greet") == "Hello Ann, round 2"


async def test_arguments_of_prompts_are_completed(serve: Any, kind: str) -> None:
    header = "async def complete(ref, argument, context):"
    values = 'Completion(values=["python", "perl"])'
    text = f"""{kind}
from mcp_types import Completion
mcp = Server("demo")

@mcp.prompt()
def review(language: str) -> str:
    return language

@mcp.completion()
{header}
    return {values}
"""
    async with serve(text, mode="legacy") as client:
        from mcp_types import PromptReference

        result = await client.complete(
            PromptReference(type="ref/prompt", name="review"), {"name": "language", "value": "p"}
        )
    assert sorted(result.completion.values) == ["perl", "python"]


async def test_of_several_servers_the_one_that_is_named_mcp_is_served(serve: Any, kind: str) -> None:
    text = f"""{kind}
other = Server("other")
mcp = Server("demo")

@other.tool()
def hidden() -> str: ...

@mcp.tool()
def shown() -> str: ...
"""
    async with serve(text) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["shown"]


async def test_several_servers_without_a_usual_name_are_a_problem(tmp_path: Path, kind: str) -> None:
    (tmp_path / "server.py").write_text(f'{kind}\none = Server("1")\ntwo = Server("2")\n')
    offer = PythonSource("server", path=tmp_path / "server.py").load()
    assert "several servers, 'one', 'two'" in "".join(offer.problems)


async def test_clients_see_the_name_the_version_and_the_instructions_of_the_server(
    tmp_path: Path, kind: str, era: str
) -> None:
    path = tmp_path / "server.py"
    path.write_text(f'{kind}\nmcp = Server("Weather desk", version="1.2", instructions="Ask for a city.")\n')
    async with connect(build_from_file(path), mode=era) as client:
        assert (client.server_info.name, client.server_info.version) == ("Weather desk", "1.2")
        assert client.instructions == "Ask for a city."


async def test_clients_see_the_icons_and_the_website_of_the_server(serve: Any, kind: str, era: str) -> None:
    text = f"""{kind}
from mcp_types import Icon
icon = Icon(src="https://a.example/icon.png", mime_type="image/png", sizes=["48x48"])
mcp = Server("demo", website_url="https://a.example", icons=[icon])

@mcp.tool()
def say() -> str:
    return "hi"
"""
    async with serve(text, mode=era) as client:
        info = client.server_info
        result = await client.call_tool("say", {})
    assert info.website_url == "https://a.example"
    assert [(icon.src, icon.sizes) for icon in info.icons] == [("https://a.example/icon.png", ["48x48"])]
    stamp = (result.meta or {}).get("io.modelcontextprotocol/serverInfo", {})
    # Results do not repeat the icons.
    assert "icons" not in stamp


async def test_an_error_keeps_its_structured_content(serve: Any, kind: str, era: str) -> None:
    text = f"""{kind}
from mcp_types import CallToolResult, TextContent
mcp = Server("demo")

@mcp.tool()
def fail() -> CallToolResult:
    text = TextContent(type="text", text="no such table")
    return CallToolResult(content=[text], structured_content={{"code": 42}}, is_error=True)
"""
    async with serve(text, mode=era) as client:
        result = await client.call_tool("fail", {})
    assert result.is_error
    assert [block.text for block in result.content] == ["no such table"]
    assert result.structured_content == {"code": 42}


async def test_tools_find_the_metadata_of_a_request(serve: Any, kind: str, era: str) -> None:
    text = f"""{kind}
mcp = Server("demo")

@mcp.tool()
def find_user(ctx: Context) -> str:
    return ctx.request_context.meta["user"]
"""
    async with serve(text, mode=era) as client:
        result = await client.call_tool("find_user", {}, meta={"user": "ann"})
    assert result.content[0].text == "ann"
