"""Tools and toolsets of pydantic-ai, as clients of MCP see and call them."""

from __future__ import annotations

import base64
import threading
from dataclasses import replace
from typing import Annotated, Any

import anyio
import anyio.to_thread
import pytest

from mcp_bridge._integrations.frameworks.discovery import convert_tool, convert_toolbox
from mcp_bridge.testing import connect
from tests.kits.frameworks.environments import require_framework
from tests.kits.frameworks.framework_clients import build_bridge, connect_to_objects, run_tool

require_framework("pydantic_ai")

from pydantic import BaseModel, Field, field_validator
from pydantic_ai import (
    ApprovalRequired,
    BinaryContent,
    CallDeferred,
    ImageUrl,
    ModelRetry,
    RunContext,
    Tool,
    ToolReturn,
)
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import CombinedToolset, ExternalToolset, FunctionToolset

from tests.kits.constants import TIMEOUT

PIXEL = b"\x89PNG\r\n\x1a\n0000"


class Place(BaseModel):
    name: str
    height: int


class Even(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def is_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value


def weather(city: Annotated[str, Field(description="where")], days: int = 1) -> str:
    """Tells the weather."""
    return f"{city}: rain for {days} days"


async def highest(ctx: RunContext[Any], country: str) -> Place:
    """Tells the highest peak.

    Args:
        country: Its code.
    """
    return Place(name=f"{country} {ctx.tool_name} {ctx.deps}", height=4634)


async def test_a_tool_is_listed_and_called() -> None:
    async with connect_to_objects(Tool(weather)) as client:
        (tool,) = (await client.list_tools()).tools
        assert (tool.name, tool.description) == ("weather", "Tells the weather.")
        assert tool.input_schema["required"] == ["city"]
        assert tool.input_schema["properties"]["city"]["description"] == "where"
        assert await run_tool(client, "weather", city="Bern") == ("Bern: rain for 1 days", False)


async def test_schemas_of_models_have_no_references() -> None:
    def compare(first: Place, second: Place) -> str:
        return max(first.name, second.name)

    async with connect_to_objects(Tool(compare)) as client:
        (tool,) = (await client.list_tools()).tools
        assert tool.input_schema["properties"]["second"]["properties"]["height"] == {"type": "integer"}
        assert "$defs" not in tool.input_schema
        place = {"name": "Rigi", "height": 1797}
        assert await run_tool(client, "compare", first=place, second=place) == ("Rigi", False)


async def test_a_result_that_is_a_model_is_structured() -> None:
    async with connect_to_objects(Tool(highest)) as client:
        (tool,) = (await client.list_tools()).tools
        assert tool.output_schema["properties"]["height"]["type"] == "integer"
        assert tool.input_schema["properties"]["country"]["description"] == "Its code."
        result = await client.call_tool("highest", {"country": "CH"})
    assert result.structured_content == {"name": "CH highest None", "height": 4634}


@pytest.mark.parametrize("error_class", [ModelRetry, ToolFailed])
async def test_the_text_of_model_retry_and_tool_failed_is_an_error_verbatim(error_class: type[Exception]) -> None:
    def breaks() -> str:
        raise error_class("no such city, try the French name")

    async with connect_to_objects(Tool(breaks)) as client:
        assert await run_tool(client, "breaks") == ("no such city, try the French name", True)


async def test_the_text_of_any_other_exception_is_not_in_the_result() -> None:
    def breaks() -> str:
        raise ValueError("the password is 1234")

    async with connect_to_objects(Tool(breaks)) as client:
        text, is_error = await run_tool(client, "breaks")
    assert is_error
    assert "reference" in text
    assert "1234" not in text


async def test_arguments_that_only_the_function_rejects_are_invalid_arguments() -> None:
    # If a model is the only parameter, its fields are the arguments of the tool.
    def half(given: Even) -> int:
        return given.number // 2

    async with connect_to_objects(Tool(half)) as client:
        text, is_error = await run_tool(client, "half", number=3)
        assert is_error
        assert "number: Value error, must be even" in text
        assert await run_tool(client, "half", number=4) == ("2", False)


async def test_a_validator_of_the_arguments_runs_before_the_tool() -> None:
    ran: list[int] = []

    async def small(_: RunContext[Any], number: int) -> None:
        if number > 9:
            raise ModelRetry("one digit, please")

    def keeps(number: int) -> int:
        ran.append(number)
        return number

    async with connect_to_objects(Tool(keeps, args_validator=small)) as client:
        assert await run_tool(client, "keeps", number=10) == ("one digit, please", True)
        assert await run_tool(client, "keeps", number=9) == ("9", False)
    assert ran == [9]


async def test_files_and_additional_content_are_content() -> None:
    def several() -> ToolReturn:
        return ToolReturn(
            return_value={"n": 2},
            content=["look:", BinaryContent(PIXEL, media_type="image/png"), ImageUrl(url="https://example.org/a.png")],
            metadata={"took": 1},
        )

    def picture() -> BinaryContent:
        return BinaryContent(PIXEL, media_type="image/png")

    async with connect_to_objects(Tool(several), Tool(picture)) as client:
        result = await client.call_tool("several", {})
        (block,) = (await client.call_tool("picture", {})).content
    assert [item.type for item in result.content] == ["text", "text", "image", "resource_link"]
    assert result.content[0].text == '{"n":2}'
    assert result.meta["pydantic_ai/metadata"] == {"took": 1}
    assert base64.b64decode(block.data) == PIXEL


async def test_a_tool_that_requires_approval_runs_only_if_the_user_agrees() -> None:
    ran: list[str] = []

    def delete(path: str) -> str:
        ran.append(path)
        return "gone"

    tool = Tool(delete, requires_approval=True)
    async with connect_to_objects(tool, action="decline") as client:
        text, is_error = await run_tool(client, "delete", path="/a")
        assert is_error
        assert "did not agree" in text
    async with connect_to_objects(tool) as client:
        text, is_error = await run_tool(client, "delete", path="/b")
        assert is_error
        assert "cannot ask" in text
    assert ran == []
    async with connect_to_objects(tool, action="accept") as client:
        assert await run_tool(client, "delete", path="/c") == ("gone", False)


async def test_a_tool_may_ask_for_approval_while_it_runs() -> None:
    def delete(ctx: RunContext[Any], path: str) -> str:
        if path.startswith("/etc") and not ctx.tool_call_approved:
            raise ApprovalRequired
        return "gone"

    async with connect_to_objects(Tool(delete)) as client:
        assert await run_tool(client, "delete", path="/tmp/a") == ("gone", False)
        assert (await run_tool(client, "delete", path="/etc/a"))[1]
    async with connect_to_objects(Tool(delete), action="accept") as client:
        assert await run_tool(client, "delete", path="/etc/a") == ("gone", False)


async def test_a_whole_toolset_may_require_approval() -> None:
    toolset = FunctionToolset(tools=[weather]).approval_required(
        lambda ctx, tool, arguments: arguments["city"] == "Bern"
    )
    async with connect_to_objects(toolset) as client:
        assert not (await run_tool(client, "weather", city="Basel"))[1]
        assert (await run_tool(client, "weather", city="Bern"))[1]


async def test_a_deferred_call_is_rejected() -> None:
    def later() -> str:
        raise CallDeferred

    async with connect_to_objects(Tool(later)) as client:
        text, is_error = await run_tool(client, "later")
    assert is_error
    assert "only an agent can wait" in text


async def test_the_timeout_of_a_tool_is_an_error() -> None:
    async def waits() -> str:
        await anyio.sleep_forever()
        return "never"

    async with connect_to_objects(Tool(waits, timeout=0.01)) as client:
        assert await run_tool(client, "waits") == ("Timed out after 0.01 seconds.", True)


async def test_prefixed_filtered_and_combined_toolsets_have_their_names() -> None:
    second_toolset = FunctionToolset(tools=[highest]).filtered(lambda ctx, tool: tool.name == "highest")
    toolset = CombinedToolset([FunctionToolset(tools=[weather]).prefixed("my"), second_toolset])
    async with connect_to_objects(toolset) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {"my_weather", "highest"}
        assert await run_tool(client, "my_weather", city="Bern", days=2) == ("Bern: rain for 2 days", False)


async def test_a_toolset_is_open_while_it_is_served() -> None:
    steps: list[str] = []

    class Held(FunctionToolset[Any]):
        async def __aenter__(self) -> Any:
            steps.append("open")
            return await super().__aenter__()

        async def __aexit__(self, *error: Any) -> Any:
            steps.append("closed")
            return await super().__aexit__(*error)

    async with connect_to_objects(Held(tools=[weather]).prefixed("a")) as client:
        await run_tool(client, "a_weather", city="Bern")
        assert steps == ["open"]
    assert steps == ["open", "closed"]


async def test_a_tool_that_is_not_offered_now_is_unavailable() -> None:
    state = {"on": False}

    async def prepare(_: RunContext[Any], definition: ToolDefinition) -> ToolDefinition | None:
        return definition if state["on"] else None

    async with connect_to_objects(Tool(weather, prepare=prepare)) as client:
        text, is_error = await run_tool(client, "weather", city="Bern")
        assert is_error
        assert "not offered now" in text
        state["on"] = True
        assert not (await run_tool(client, "weather", city="Bern"))[1]


async def test_an_unwrapped_value_is_wrapped_for_its_schema() -> None:
    wrapped = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}

    async def prepare(_: RunContext[Any], definition: ToolDefinition) -> ToolDefinition:
        return replace(definition, return_schema=wrapped)

    def twice(number: int) -> int:
        return 2 * number

    async with connect_to_objects(FunctionToolset(tools=[Tool(twice, prepare=prepare)])) as client:
        result = await client.call_tool("twice", {"number": 4})
    assert result.structured_content == {"result": 8}
    assert result.content[0].text == "8"


async def test_a_call_that_is_cancelled_does_not_wait_for_its_thread() -> None:
    has_begun, go_on = threading.Event(), threading.Event()

    def waits() -> None:
        has_begun.set()
        go_on.wait(60)

    async with connect_to_objects(Tool(waits)) as client:
        with anyio.fail_after(TIMEOUT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "waits", {})
                await anyio.to_thread.run_sync(has_begun.wait)
                tasks.cancel_scope.cancel()
        go_on.set()


async def test_external_tools_are_left_out_with_a_problem() -> None:
    external = ExternalToolset([ToolDefinition(name="elsewhere")])
    bridge = build_bridge(CombinedToolset([FunctionToolset(tools=[weather]), external]))
    async with connect(bridge) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["weather"]
        (problem,) = bridge.problems["objects"]
    assert "'elsewhere' cannot be called here: its result is made elsewhere" in problem


def test_tools_and_toolsets_are_recognised_by_their_classes() -> None:
    # An object with every attribute is neither a tool nor a toolset.
    class AnyAttribute:
        def __getattr__(self, name: str) -> str:
            return name

    assert convert_tool(Tool(weather)) is not None
    assert convert_toolbox(FunctionToolset().prefixed("a")) is not None
    other_objects = (AnyAttribute(), len, Tool, FunctionToolset, None)
    assert not any(convert(value) for convert in (convert_tool, convert_toolbox) for value in other_objects)
