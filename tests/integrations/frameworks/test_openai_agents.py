"""Tools of the OpenAI Agents SDK, as clients of MCP see and call them."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Annotated, Any

import pytest

from mcp_bridge._contracts.errors import Denied, SourceError
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._integrations.frameworks import openai_agents
from mcp_bridge._integrations.frameworks.common import require_approval
from mcp_bridge._integrations.frameworks.discovery import convert_tool
from tests.kits.frameworks.environments import require_framework
from tests.kits.frameworks.framework_clients import connect_to_objects, run_tool

require_framework("openai_agents")

from agents import (
    Agent,
    FunctionTool,
    RunContextWrapper,
    ToolGuardrailFunctionOutput,
    ToolOutputImage,
    ToolOutputText,
    function_tool,
    tool_input_guardrail,
    tool_output_guardrail,
)
from agents.tool_context import ToolContext
from pydantic import BaseModel, Field

PIXEL = b"\x89PNG\r\n\x1a\n0000"


class Even(BaseModel):
    number: int

    def model_post_init(self, _: Any) -> None:
        if self.number % 2:
            raise ValueError("must be even")


class Place(BaseModel):
    name: str
    height: int


async def test_a_function_tool_is_listed_and_called() -> None:
    @function_tool
    def weather(city: Annotated[str, Field(description="where")], days: int = 1) -> str:
        """Tells the weather."""
        return f"{city}: rain for {days} days"

    async with connect_to_objects(weather) as at:
        (tool,) = (await at.list_tools()).tools
        assert (tool.name, tool.description) == ("weather", "Tells the weather.")
        assert tool.input_schema["properties"]["city"]["description"] == "where"
        assert await run_tool(at, "weather", city="Bern", days=2) == ("Bern: rain for 2 days", False)


async def test_an_asynchronous_function_gets_the_context() -> None:
    @function_tool
    async def who(ctx: ToolContext[Any]) -> str:
        return f"{ctx.tool_name} {ctx.tool_arguments} {ctx.context}"

    async with connect_to_objects(who) as at:
        assert await run_tool(at, "who") == ("who {} None", False)


async def test_the_text_of_an_error_function_is_an_error_verbatim() -> None:
    def describe_failure(_: RunContextWrapper[Any], error: Exception) -> str:
        return f"sorry: {error}"

    @function_tool(failure_error_function=describe_failure)
    def breaks(ok: bool) -> str:
        if ok:
            return "sorry: no, all is well"
        raise ValueError("no such place")

    async with connect_to_objects(breaks) as at:
        assert await run_tool(at, "breaks", ok=False) == ("sorry: no such place", True)
        assert await run_tool(at, "breaks", ok=True) == ("sorry: no, all is well", False)


@pytest.mark.parametrize("options", [{}, {"failure_error_function": None}])
async def test_the_text_of_an_unexpected_error_is_not_in_the_result(options: dict[str, Any]) -> None:
    @function_tool(**options)
    def breaks() -> str:
        raise ValueError("the password is 1234")

    async with connect_to_objects(breaks) as at:
        text, is_error = await run_tool(at, "breaks")
    assert is_error
    assert "reference" in text
    assert "1234" not in text


async def test_an_error_of_a_custom_invoker_is_an_error() -> None:
    async def invoke(_: Any, text: str) -> str:
        raise RuntimeError(text)

    tool = FunctionTool(name="raw", description="", params_json_schema={"type": "object"}, on_invoke_tool=invoke)
    async with connect_to_objects(tool) as at:
        assert (await run_tool(at, "raw"))[1]


async def test_arguments_that_only_the_function_rejects_are_invalid_arguments() -> None:
    @function_tool
    def half(given: Even) -> int:
        return given.number // 2

    async with connect_to_objects(half) as at:
        text, is_error = await run_tool(at, "half", given={"number": 3})
        assert is_error
        assert "half" in text
        assert await run_tool(at, "half", given={"number": 4}) == ("2", False)


async def test_the_timeout_of_a_tool_ends_its_call() -> None:
    import asyncio

    @function_tool(timeout=0.01)
    async def waits() -> str:
        await asyncio.Event().wait()
        return "never"

    @function_tool(timeout=0.01, timeout_error_function=lambda _, error: f"slow: {error.timeout_seconds}")
    async def waits_too() -> str:
        await asyncio.Event().wait()
        return "never"

    async with connect_to_objects(waits, waits_too) as at:
        text, is_error = await run_tool(at, "waits")
        assert is_error
        assert "0.01 seconds" in text
        assert await run_tool(at, "waits_too") == ("slow: 0.01", True)


async def test_a_tool_that_needs_approval_runs_only_if_the_user_agrees() -> None:
    ran: list[str] = []

    @function_tool(needs_approval=True)
    def delete(path: str) -> str:
        ran.append(path)
        return "gone"

    async with connect_to_objects(delete, action="decline") as at:
        text, is_error = await run_tool(at, "delete", path="/a")
        assert is_error
        assert "did not agree" in text
    async with connect_to_objects(delete) as at:
        text, is_error = await run_tool(at, "delete", path="/b")
        assert is_error
        assert "cannot ask" in text
    assert ran == []
    async with connect_to_objects(delete, action="accept") as at:
        assert await run_tool(at, "delete", path="/c") == ("gone", False)
    assert ran == ["/c"]


async def test_the_question_for_approval_has_all_arguments() -> None:
    questions: list[str] = []

    class Shown(RunningCall):
        async def ask(self, message: str, *more: Any, **options: Any) -> Any:
            questions.append(message)
            return SimpleNamespace(accepted=True)

    await require_approval(Shown(), "run", {"comment": "x" * 5000, "command": "rm -rf /\u200b"})
    assert questions[0].split("\n")[1] == '- command (length 9): "rm -rf /\\u200b"'
    with pytest.raises(Denied, match=r"at most 10,000 characters"):
        await require_approval(Shown(), "run", {"comment": "x" * 50_000, "command": "rm -rf /"})
    assert len(questions) == 1


async def test_a_function_decides_which_calls_need_approval_unless_defaults_are_missing() -> None:
    async def risky(_: Any, arguments: dict[str, Any], __: str) -> bool:
        return arguments["path"].startswith("/etc")

    @function_tool(needs_approval=risky, strict_mode=False)
    def read(path: str = "/etc/passwd") -> str:
        return path

    async with connect_to_objects(read) as at:
        assert await run_tool(at, "read", path="/tmp/a") == ("/tmp/a", False)
        assert (await run_tool(at, "read", path="/etc/shadow"))[1]
        assert (await run_tool(at, "read"))[1]


async def test_a_disabled_tool_is_not_published() -> None:
    @function_tool(is_enabled=False)
    def off() -> None: ...

    with pytest.raises(SourceError, match="'off' is disabled"):
        openai_agents.build_entry(off)


async def test_a_tool_that_is_not_enabled_for_a_call_is_unavailable() -> None:
    state = {"on": False}

    @function_tool(is_enabled=lambda _, agent: state["on"] and isinstance(agent, Agent))
    def sometimes() -> str:
        return "yes"

    async with connect_to_objects(sometimes) as at:
        text, is_error = await run_tool(at, "sometimes")
        assert is_error
        assert "not enabled now" in text
        state["on"] = True
        assert await run_tool(at, "sometimes") == ("yes", False)


async def test_guardrails_run_before_and_after_the_tool() -> None:
    @tool_input_guardrail
    def no_secrets(data: Any) -> ToolGuardrailFunctionOutput:
        if "halt" in data.context.tool_arguments:
            return ToolGuardrailFunctionOutput.raise_exception()
        if "secret" in data.context.tool_arguments:
            return ToolGuardrailFunctionOutput.reject_content("no secrets, please")
        return ToolGuardrailFunctionOutput.allow()

    @tool_output_guardrail
    def no_numbers(data: Any) -> ToolGuardrailFunctionOutput:
        if any(letter.isdigit() for letter in data.output):
            return ToolGuardrailFunctionOutput.reject_content("no numbers, please")
        return ToolGuardrailFunctionOutput.allow()

    @function_tool(tool_input_guardrails=[no_secrets], tool_output_guardrails=[no_numbers])
    def echo(text: str) -> str:
        return text

    async with connect_to_objects(echo) as at:
        assert await run_tool(at, "echo", text="hello") == ("hello", False)
        assert await run_tool(at, "echo", text="my secret") == ("no secrets, please", True)
        assert await run_tool(at, "echo", text="42") == ("no numbers, please", True)
        text, is_error = await run_tool(at, "echo", text="halt")
        assert is_error
        assert "guardrail" in text


async def test_outputs_of_the_sdk_become_content() -> None:
    picture = "data:image/png;base64," + base64.b64encode(PIXEL).decode()

    @function_tool
    def several() -> list[Any]:
        return [
            ToolOutputText(text="one"),
            ToolOutputImage(image_url=picture),
            ToolOutputImage(file_id="f-1"),
            {"type": "file", "file_data": base64.b64encode(b"%PDF-1").decode()},
            {"type": "file", "file_url": "https://example.org/a.txt"},
            {"type": "image", "image_url": "https://example.org/a.png"},
            "plain",
        ]

    async with connect_to_objects(several) as at:
        blocks = (await at.call_tool("several", {})).content
    assert [block.type for block in blocks] == [
        "text",
        "image",
        "text",
        "resource",
        "resource_link",
        "resource_link",
        "text",
    ]
    assert base64.b64decode(blocks[1].data) == PIXEL


async def test_the_items_of_an_iterator_are_in_the_result() -> None:
    @function_tool
    def count() -> Any:
        return (number for number in range(3))

    async with connect_to_objects(count) as at:
        result = await at.call_tool("count", {})
    assert [block.text for block in result.content] == ["[0,1,2]"]


async def test_a_tool_with_an_output_schema_has_structured_results() -> None:
    @function_tool(output_type=Place)
    def peak() -> Place:
        return Place(name="Eiger", height=3967)

    async with connect_to_objects(peak) as at:
        (tool,) = (await at.list_tools()).tools
        assert tool.output_schema["properties"]["height"]["type"] == "integer"
        result = await at.call_tool("peak", {})
    assert result.structured_content == {"name": "Eiger", "height": 3967}


def test_a_server_is_recognised_by_its_class() -> None:
    @function_tool
    def tool() -> None: ...

    class Answering:
        def __getattr__(self, name: str) -> str:
            return name

    assert convert_tool(tool).name == "tool"
    assert not any(convert_tool(value) for value in (Answering(), len, FunctionTool, None))
