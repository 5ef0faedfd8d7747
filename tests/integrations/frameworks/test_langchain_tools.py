"""LangChain tools, as langchain-core makes them, served as they are."""

from __future__ import annotations

import asyncio
import base64
import threading
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._contracts.source import SourceContext
from mcp_bridge._integrations.frameworks import langchain
from mcp_bridge._integrations.frameworks.discovery import convert_tool, convert_toolbox
from mcp_bridge._integrations.frameworks.langchain import build_entry
from mcp_bridge._integrations.frameworks.source import FrameworkOptions, FrameworkSource
from mcp_bridge._sources.python import PythonSource
from mcp_bridge.testing import connect
from tests.kits.frameworks.environments import require_framework
from tests.kits.frameworks.shapes_kit import PNG, call_text, get_input_schema, serve_tools

require_framework("langchain")

from langchain_core.messages import ToolMessage
from langchain_core.tools import (
    BaseTool,
    BaseToolkit,
    InjectedToolArg,
    InjectedToolCallId,
    StructuredTool,
    Tool,
    ToolException,
    tool,
)


class Order(BaseModel):
    """An order."""

    item: str = Field(description="What to order.")
    size: Literal["s", "l"] = "s"


def order(item: str, size: str = "s") -> dict[str, Any]:
    """Orders an item."""
    if item == "gold":
        raise ToolException("gold is sold out, try silver")
    if item == "lead":
        raise RuntimeError("secret detail")
    return {"ordered": item, "size": size}


async def test_a_decorated_function_is_listed_with_its_schema_and_called_with_its_defaults() -> None:
    framework_tool = tool(order, args_schema=Order)
    assert convert_tool(framework_tool) is not None
    async with serve_tools(build_entry(framework_tool)) as client:
        input_schema = await get_input_schema(client, "order")
        assert input_schema["required"] == ["item"]
        assert input_schema["properties"]["size"]["enum"] == ["s", "l"]
        assert input_schema["properties"]["item"]["description"] == "What to order."
        assert "title" not in input_schema
        assert "description" not in input_schema
        assert await call_text(client, "order", item="tea") == '{"ordered": "tea", "size": "s"}'
        assert (await call_text(client, "order", item="tea", size="xl")).startswith("invalid_arguments")


async def test_only_the_text_of_a_tool_exception_reaches_the_model() -> None:
    async with serve_tools(build_entry(tool(order))) as client:
        assert await call_text(client, "order", item="gold") == "tool_error: gold is sold out, try silver"
        text = await call_text(client, "order", item="lead")
        assert text.startswith("internal_error")
        assert "secret" not in text


async def test_a_handled_error_is_an_error_with_the_text_of_the_tool() -> None:
    handled = StructuredTool.from_function(order, handle_tool_error="nothing left")
    async with serve_tools(build_entry(handled)) as client:
        assert await call_text(client, "order", item="gold") == "tool_error: nothing left"


async def test_an_async_tool_runs_on_asyncio_under_both_event_loops() -> None:
    @tool
    async def where(seconds: float = 0) -> str:
        """Return which loop it is in."""
        await asyncio.sleep(seconds)
        return type(asyncio.current_task()).__name__

    async with serve_tools(build_entry(where)) as client:
        assert await call_text(client, "where") == "Task"


async def test_a_sync_tool_runs_in_a_thread() -> None:
    @tool
    def where() -> bool:
        """Return whether it is in the main thread."""
        return threading.current_thread() is threading.main_thread()

    async with serve_tools(build_entry(where)) as client:
        assert await call_text(client, "where") == "false"


async def test_a_subclass_is_async_only_if_it_has_a_coroutine() -> None:
    class Plain(BaseTool):
        name: str = "plain"
        description: str = "Plain."

        def _run(self, word: str) -> str:
            return word[::-1]

    class Own(Plain):
        name: str = "own"

        async def _arun(self, word: str) -> str:
            return word.upper()

    async with serve_tools(build_entry(Plain()), build_entry(Own())) as client:
        assert await call_text(client, "plain", word="abc") == "cba"
        assert await call_text(client, "own", word="abc") == "ABC"


async def test_a_tool_without_a_schema_takes_tool_input() -> None:
    async with serve_tools(build_entry(Tool(name="echo", description="Echo.", func=lambda text: text * 2))) as client:
        assert await get_input_schema(client, "echo") == {
            "type": "object",
            "properties": {"tool_input": {"type": "string"}},
            "required": ["tool_input"],
        }
        assert await call_text(client, "echo", tool_input="ab") == "abab"


async def test_a_schema_that_is_a_dict_is_used_with_inlined_definitions() -> None:
    numbers = {"type": "array", "items": {"$ref": "#/$defs/N"}}
    arguments = {"type": "object", "properties": {"n": numbers}, "required": ["n"], "$defs": {"N": {"minimum": 1}}}
    framework_tool = StructuredTool(
        name="total", description="Adds.", args_schema=arguments, func=lambda n: str(sum(n))
    )
    async with serve_tools(build_entry(framework_tool)) as client:
        assert await get_input_schema(client, "total") == {
            "type": "object",
            "properties": {"n": {"type": "array", "items": {"minimum": 1}}},
            "required": ["n"],
        }
        assert await call_text(client, "total", n=[1, 2]) == "3"
        assert (await call_text(client, "total", n=[0])).startswith("invalid_arguments")


async def test_images_are_content_and_the_artifact_is_in_the_meta() -> None:
    def draw() -> Any:
        data = base64.b64encode(PNG).decode()
        return [
            {"type": "text", "text": "here"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
            {"type": "image", "base64": data, "mime_type": "image/png"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}},
            {"type": "image", "url": "https://example.org/cat.png"},
            {"type": "json", "value": 1},
        ], {"rows": 3}

    framework_tool = StructuredTool.from_function(draw, description="Draws.", response_format="content_and_artifact")
    async with serve_tools(build_entry(framework_tool)) as client:
        answer = await client.call_tool("draw", {})
    kinds = [block.type for block in answer.content]
    assert kinds == ["text", "image", "image", "image", "resource_link", "text"]
    assert {base64.b64decode(block.data) for block in answer.content if block.type == "image"} == {PNG}
    assert answer.meta is not None
    assert answer.meta[langchain.ARTIFACT] == {"rows": 3}


async def test_an_artifact_that_is_not_json_is_left_out() -> None:
    framework_tool = StructuredTool.from_function(
        lambda: ("text", object()), name="it", description="It.", response_format="content_and_artifact"
    )
    async with serve_tools(build_entry(framework_tool)) as client:
        answer = await client.call_tool("it", {})
    assert answer.content[0].text == "text"
    assert langchain.ARTIFACT not in (answer.meta or {})


async def test_arguments_that_only_a_validator_rejects_are_invalid_arguments() -> None:
    from pydantic import field_validator

    class Even(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def _even(cls, n: int) -> int:
            if n % 2:
                raise ValueError("must be even")
            return n

    framework_tool = StructuredTool.from_function(lambda n: n, name="half", description="Half.", args_schema=Even)
    async with serve_tools(build_entry(framework_tool)) as client:
        text = await call_text(client, "half", n=3)
    assert text.startswith("invalid_arguments")
    assert "n: Value error, must be even" in text


async def test_the_id_of_the_call_is_injected_and_not_an_argument() -> None:
    @tool
    def mark(word: str, call: Annotated[str, InjectedToolCallId]) -> str:
        """Marks."""
        return f"{word} {len(call)}"

    async with serve_tools(build_entry(mark)) as client:
        assert list((await get_input_schema(client, "mark"))["properties"]) == ["word"]
        assert await call_text(client, "mark", word="a") == "a 32"


async def test_a_tool_with_an_injected_parameter_is_not_published() -> None:
    @tool
    def remember(word: str, state: Annotated[dict[str, Any], InjectedToolArg]) -> str:
        """Remembers."""
        return word

    @tool
    def guess(word: str, state: Annotated[dict[str, Any] | None, InjectedToolArg] = None) -> str:
        """Guesses."""
        return f"{word} {state}"

    with pytest.raises(SourceError, match="'remember' needs 'state', which only an agent injects"):
        build_entry(remember)
    async with serve_tools(build_entry(guess)) as client:
        assert await call_text(client, "guess", word="a") == "a None"


async def test_a_tool_message_is_the_result() -> None:
    @tool
    def own(call: Annotated[str, InjectedToolCallId]) -> ToolMessage:
        """Answers with a message."""
        return ToolMessage("cannot", tool_call_id=call, status="error")

    async with serve_tools(build_entry(own)) as client:
        assert await call_text(client, "own") == "tool_error: cannot"


async def test_a_tool_is_published_with_its_tags() -> None:
    framework_tool = StructuredTool.from_function(order, tags=["shop"])
    assert build_entry(framework_tool).tags == ["shop"]


async def test_a_toolkit_is_a_set_of_tools_and_others_are_problems() -> None:
    @tool
    def remember(word: str, state: Annotated[dict[str, Any], InjectedToolArg]) -> str:
        """Remembers."""
        return word

    class Kit(BaseToolkit):
        def get_tools(self) -> list[BaseTool]:
            return [tool(order), remember]

    assert convert_tool(Kit()) is None
    async with convert_toolbox(Kit()) as box:
        entries = await box.list_entries()
        assert [entry.name for entry in entries] == ["order"]
        assert "'remember' needs 'state'" in box.problems[0]  # type: ignore[attr-defined]


async def test_tools_of_a_module_are_named_in_the_settings_or_found_in_a_file(tmp_path: Path) -> None:
    text = (
        "from langchain_core.tools import tool\n@tool\ndef up(word: str) -> str:\n    'Up.'\n    return word.upper()\n"
    )
    (tmp_path / "chained.py").write_text(text, "utf-8")
    for source in (
        FrameworkSource("s", FrameworkOptions(objects=["chained:up"]), SourceContext(directory=tmp_path)),
        PythonSource("s", path=tmp_path / "chained.py"),
    ):
        async with connect(Bridge(sources=[AttachedSource(source=source)])) as client:
            assert await call_text(client, "up", word="a") == "A"
