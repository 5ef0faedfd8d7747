"""Tool search: clients see few tools, find others by a description, and call them as if they were listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult

from mcp_bridge import CallContext, ToolEntry, ToolRegistry, ToolResult
from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._contracts.content import Image, Text
from mcp_bridge._contracts.identity import Identity
from mcp_bridge._contracts.listing import SearchPolicy, ToolListing
from mcp_bridge._contracts.source import Offer, Source
from mcp_bridge._engine.pipeline import ToolLimits
from mcp_bridge._protocol.dialects.dialect import SchemaDialect
from mcp_bridge._protocol.wire.client_names import to_client_name
from mcp_bridge.middleware import Pipeline
from mcp_bridge.testing import connect
from tests.kits.call_recorder import CallRecorder
from tests.kits.constants import EVERY_ERA
from tests.kits.loops import BOTH_LOOPS
from tests.kits.questions.asking_kit import get_code, get_text

CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Where to look."}},
    "required": ["city"],
}
NOTHING: dict[str, Any] = {"type": "object"}


def build_bridge(
    *tools: ToolEntry, above: int = 3, keep: Sequence[str] = (), pipeline: Pipeline | None = None, **options: Any
) -> Bridge:
    """Return a bridge with these tools, and enough others for a search."""
    registry = ToolRegistry(pipeline=pipeline)
    fillers = [ToolEntry(f"filler_{number}", "Does nothing.", lambda data: "", NOTHING) for number in range(5)]
    for tool in [*tools, *fillers]:
        registry.register(tool)
    listing = ToolListing(search=SearchPolicy(above=above, keep=tuple(keep)))
    return Bridge(registry, identity=Identity(listing=listing, ttl_ms=0), **options)


def make_weather_tool(name: str = "get_forecast") -> ToolEntry:
    return ToolEntry(name, "Predict the weather.", lambda data: {"sky": f"clear over {data['city']}"}, CITY)


def make_tool(name: str, description: str = "", *parameters: str) -> ToolEntry:
    properties = {parameter: {"type": "string"} for parameter in parameters}
    return ToolEntry(name, description, lambda data: name, {"type": "object", "properties": properties})


async def search(client: Any, query: str, **arguments: Any) -> list[dict[str, Any]]:
    result = await client.call_tool("search_tools", {"query": query, **arguments})
    assert not result.is_error, get_text(result)
    tools: list[dict[str, Any]] = result.structured_content["tools"]
    return tools


async def list_names(client: Any) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


@EVERY_ERA
async def test_many_tools_are_searched_instead_of_listed(mode: str) -> None:
    async with connect(build_bridge(make_weather_tool()), mode=mode) as client:
        assert await list_names(client) == ["call_tool", "search_tools"]
        (tools,) = await search(client, "weather")
        assert tools == {"name": "get_forecast", "description": "Predict the weather.", "inputSchema": CITY}
        result = await client.call_tool("call_tool", {"name": tools["name"], "arguments": {"city": "Oslo"}})
    assert result.structured_content == {"sky": "clear over Oslo"}


async def test_every_tool_stays_callable_by_its_name() -> None:
    async with connect(build_bridge(make_weather_tool())) as client:
        result = await client.call_tool("get_forecast", {"city": "Oslo"})
    assert result.structured_content == {"sky": "clear over Oslo"}


async def test_few_tools_are_listed_without_the_search() -> None:
    async with connect(build_bridge(make_weather_tool(), above=6)) as client:
        names = await list_names(client)
    assert "get_forecast" in names
    assert len(names) == 6


async def test_always_listed_tools_are_listed_with_the_search() -> None:
    async with connect(build_bridge(make_weather_tool(), keep=["*forecast", "filler_[12]"])) as client:
        names = await list_names(client)
    assert names == ["call_tool", "filler_1", "filler_2", "get_forecast", "search_tools"]


async def test_there_is_no_search_if_every_tool_is_always_listed() -> None:
    async with connect(build_bridge(keep=["filler_*"])) as client:
        assert await list_names(client) == [f"filler_{number}" for number in range(5)]


async def test_a_change_of_the_tools_changes_the_list_and_what_is_found() -> None:
    bridge = build_bridge(above=5)
    async with connect(bridge) as client:
        assert "search_tools" not in await list_names(client)
        bridge.registry.register(make_weather_tool())
        assert await list_names(client) == ["call_tool", "search_tools"]
        assert [tool["name"] for tool in await search(client, "forecast")] == ["get_forecast"]
        bridge.registry.unregister("get_forecast")
        bridge.registry.register(make_weather_tool("tell_weather"))
        assert [tool["name"] for tool in await search(client, "weather")] == ["tell_weather"]


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("create an issue", "github__create_issue"),
        ("creating issues", "github__create_issue"),
        ("CreateIssue", "github__create_issue"),
        ("send_message", "slack__sendMessage"),
        ("channel", "slack__sendMessage"),
        ("fichier", "read_file"),
        ('mail" OR name:*', "gmail"),
        ("electron", "electronics"),
        ("server", "getHTTPServer"),
        ("fi\u0300chier", "read_file"),
        ("ＭＡＩＬ", "gmail"),
        ("天気予報", "tenki"),
        ("駅", "eki"),
        ("날씨", "nalssi"),
        ("อากาศ", "akat"),
    ],
)
async def test_words_find_tools_by_name_description_and_parameters(query: str, best: str) -> None:
    tools = [
        make_tool("github__create_issue", "Open a new issue in a repository."),
        make_tool("github__list_issues", "List the issues of a repository."),
        make_tool("slack__sendMessage", "Write to people.", "channelName", "text"),
        make_tool("read_file", "Lire un fìchier."),
        make_tool("gmail", "Read mail."),
        make_tool("electronics", "Order parts."),
        make_tool("getHTTPServer", "Show a machine."),
        make_tool("tenki", "東京の天気を調べる。"),
        make_tool("eki", "近くの駅。"),
        make_tool("nalssi", "오늘의 날씨를 알려줍니다."),
        make_tool("akat", "ตรวจสอบสภาพอากาศวันนี้"),
    ]
    async with connect(build_bridge(*tools)) as client:
        assert (await search(client, query))[0]["name"] == best


async def test_a_search_returns_at_most_as_many_tools_as_asked_for() -> None:
    async with connect(build_bridge(*[make_tool(f"report_{number}") for number in range(20)])) as client:
        assert len(await search(client, "report")) == 5
        assert len(await search(client, "report", limit=12)) == 12
        rejection = await client.call_tool("search_tools", {"query": "report", "limit": 51})
    assert get_code(rejection) == "invalid_arguments"


@BOTH_LOOPS
async def test_concurrent_searches_share_one_index() -> None:
    tools: list[str] = []

    async def find_tool(client: Any, name: str) -> None:
        tools.append((await search(client, name))[0]["name"])

    names = [f"tool{number}" for number in range(10)]
    async with connect(build_bridge(*map(make_tool, names))) as client, anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(find_tool, client, name)
    assert sorted(tools) == names


@pytest.mark.parametrize("query", ["unheard", "?!", "\0", "\ud800"])
async def test_a_search_without_a_match_returns_advice(query: str) -> None:
    async with connect(build_bridge()) as client:
        # The official client cannot send a lone surrogate.
        if query == "\ud800":
            query = "\ufffd"
        result = await client.call_tool("search_tools", {"query": query})
    assert result.structured_content == {"tools": []}
    assert get_text(result) == "No tool matches these words. Search again with other words."


async def test_schemas_are_found_in_the_form_that_the_client_supports() -> None:
    schema = {"type": "object", "properties": {"when": {"$ref": "#/$defs/When"}}, "$defs": {"When": {"type": "string"}}}
    tool = ToolEntry("book_room", "Book a room.", lambda data: "booked", schema)
    async with connect(build_bridge(tool, dialect=SchemaDialect(inline_references=True))) as client:
        (tools,) = await search(client, "room")
    assert tools["inputSchema"]["properties"]["when"] == {"type": "string"}


async def test_arguments_that_arrive_as_json_in_a_string_are_parsed_if_the_dialect_has_this_fact() -> None:
    bridge = build_bridge(make_weather_tool(), dialect=SchemaDialect(parse_strings=True))
    async with connect(bridge) as client:
        result = await client.call_tool("call_tool", {"name": "get_forecast", "arguments": '{"city": "Oslo"}'})
    assert result.structured_content == {"sky": "clear over Oslo"}


@EVERY_ERA
async def test_policies_limits_and_the_log_see_the_target_of_a_call(
    mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mcp_bridge.calls")
    recorder = CallRecorder()
    pipeline = Pipeline([recorder])
    async with connect(build_bridge(make_weather_tool(), pipeline=pipeline), mode=mode) as client:
        await client.call_tool("call_tool", {"name": "get_forecast", "arguments": {"city": "Oslo"}})
    assert [(call.name, call.arguments) for call in recorder.calls] == [("get_forecast", {"city": "Oslo"})]
    lines = [record.getMessage() for record in caplog.records if record.name == "mcp_bridge.calls"]
    assert len(lines) == 1
    assert "get_forecast" in lines[0]
    assert "call_tool" not in lines[0]


@BOTH_LOOPS
async def test_the_time_limit_of_the_target_applies() -> None:
    async def wait(data: Any) -> None:
        await anyio.sleep_forever()

    pipeline = Pipeline(tools={"slow": ToolLimits(timeout=0.05), "call_tool": ToolLimits(timeout=60)})
    async with connect(build_bridge(ToolEntry("slow", "", wait, NOTHING), pipeline=pipeline)) as client:
        result = await client.call_tool("call_tool", {"name": "slow"})
    assert get_code(result) == "timeout"


@EVERY_ERA
async def test_results_pass_unchanged(mode: str) -> None:
    def fail(data: Any) -> ToolResult:
        return ToolResult(success=False, error="no", code="tool_error", content=[Text("more")], meta={"x/y": 1})

    def draw(data: Any) -> ToolResult:
        content = [Text("a"), Image(b"png", "image/png")]
        return ToolResult(success=True, output={"n": 1}, content=content, meta={"x/y": 2})

    def count(data: Any) -> list[int]:
        return [1, 2]

    tools = [
        ToolEntry("fail", "", fail, NOTHING),
        ToolEntry("draw", "", draw, NOTHING),
        ToolEntry("count", "", count, NOTHING, {"type": "array", "items": {"type": "integer"}}),
    ]
    async with connect(build_bridge(*tools), mode=mode) as client:
        for tool in tools:
            direct = await client.call_tool(tool.name, {})
            assert await client.call_tool("call_tool", {"name": tool.name, "arguments": {}}) == direct
            assert await client.call_tool("call_tool", {"name": tool.name}) == direct


@EVERY_ERA
async def test_progress_and_questions_of_the_target_reach_the_client(mode: str) -> None:
    questions: list[str] = []
    observations: list[tuple[float, str | None]] = []

    async def order(data: Any, ctx: CallContext) -> str:
        await ctx.report_progress(1, 2, "asking")
        answer = await ctx.ask("Really?", {"type": "object", "properties": {"sure": {"type": "boolean"}}})
        return f"ordered: {answer}"

    async def answer_question(context: Any, params: Any) -> ElicitResult:
        questions.append(params.message)
        return ElicitResult(action="accept", content={"sure": True})

    async def record_progress(progress: float, total: float | None, message: str | None) -> None:
        observations.append((progress, message))

    bridge = build_bridge(ToolEntry("order", "", order, NOTHING))
    async with connect(bridge, mode=mode, elicitation_callback=answer_question) as client:
        result = await client.call_tool("call_tool", {"name": "order"}, progress_callback=record_progress)
    assert get_text(result).startswith("ordered")
    assert questions == ["Really?"]
    assert observations == [(1, "asking")]


async def test_invalid_arguments_are_named_where_the_client_wrote_them() -> None:
    text = ToolEntry("shout", "", lambda data: data.upper(), {"type": "string"})
    async with connect(build_bridge(make_weather_tool(), text)) as client:
        missing = await client.call_tool("call_tool", {"name": "get_forecast", "arguments": {}})
        wrapped_function = await client.call_tool("call_tool", {"name": "shout", "arguments": {"text": "hi"}})
        wrong = await client.call_tool("call_tool", {"name": "shout", "arguments": {"input": 3}})
        right = await client.call_tool("call_tool", {"name": "shout", "arguments": {"input": "hi"}})
    assert "$.arguments.city: required field missing" in get_text(missing)
    assert "get_forecast" in get_text(missing)
    assert "$.arguments.input: required field missing" in get_text(wrapped_function)
    assert "$.arguments.input: expected type string" in get_text(wrong)
    assert get_text(right) == "HI"


@pytest.mark.parametrize(
    "arguments", [{}, {"name": 3}, {"name": "get_forecast", "city": "Oslo"}, {"name": "get_forecast", "arguments": "x"}]
)
async def test_calls_that_name_no_tool_properly_are_rejected(arguments: Mapping[str, Any]) -> None:
    async with connect(build_bridge(make_weather_tool())) as client:
        result = await client.call_tool("call_tool", dict(arguments))
    assert get_code(result) == "invalid_arguments"
    assert "call_tool" in get_text(result)


async def test_an_unknown_name_is_an_error_with_near_names() -> None:
    async with connect(build_bridge(make_weather_tool())) as client:
        result = await client.call_tool("call_tool", {"name": "get_forcast"})
        assert get_code(result) == "tool_not_found"
        assert get_text(result) == "Unknown tool: get_forcast. Did you mean 'get_forecast'?"
        itself = await client.call_tool("call_tool", {"name": "call_tool", "arguments": {"name": "get_forecast"}})
        assert get_code(itself) == "tool_not_found"
        with pytest.raises(MCPError, match="Unknown tool: get_forcast"):
            await client.call_tool("get_forcast", {})


async def test_without_the_setting_there_is_no_search() -> None:
    async with connect(ToolRegistry()) as client:
        with pytest.raises(MCPError, match="Unknown tool: search_tools"):
            await client.call_tool("search_tools", {"query": "x"})


async def test_a_source_cannot_publish_a_tool_of_the_same_name() -> None:
    class Fixed(Source):
        async def run(self, publish: Any) -> None:
            publish(Offer(tools=[make_tool("search_tools"), make_tool("other")]))

    listing = ToolListing(search=SearchPolicy(above=0))
    bridge = Bridge(sources=[AttachedSource(Fixed("mine"))], identity=Identity(listing=listing))
    async with connect(bridge) as client:
        assert bridge.registry.list_names() == ["other"]
        assert [tool["name"] for tool in await search(client, "other")] == ["other"]
    (problem,) = bridge.problems["mine"]
    assert "'search_tools' is not published: the settings add a tool of this name" in problem


async def test_a_call_of_an_unknown_tool_waits_for_its_source_once() -> None:
    bridge, waits = build_bridge(), list[str]()

    async def explain_missing(name: str) -> str:
        waits.append(name)
        return "The server 'late' is not available."

    bridge.registry.explain_missing = explain_missing
    async with connect(bridge) as client:
        result = await client.call_tool("call_tool", {"name": "late__echo"})
    assert get_text(result) == "The server 'late' is not available."
    assert waits == ["late__echo"]


async def test_a_tool_that_appears_while_a_call_waits_is_called_by_the_name_that_clients_know() -> None:
    bridge = build_bridge()

    async def publish_late(name: str) -> str:
        bridge.registry.register(make_weather_tool("late.forecast/now"))
        return ""

    bridge.registry.explain_missing = publish_late
    async with connect(bridge) as client:
        arguments = {"name": to_client_name("late.forecast/now"), "arguments": {"city": "Oslo"}}
        result = await client.call_tool("call_tool", arguments)
    assert result.structured_content == {"sky": "clear over Oslo"}
