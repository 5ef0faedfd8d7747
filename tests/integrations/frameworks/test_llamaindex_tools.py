"""LlamaIndex tools. These are objects of the documented shape: see `shapes_llamaindex.py`."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._integrations.frameworks.discovery import convert_tool, convert_toolbox
from mcp_bridge._integrations.frameworks.llamaindex import build_entry
from tests.kits.frameworks.shapes_kit import PNG, call_text, get_input_schema, serve_tools
from tests.kits.frameworks.shapes_llamaindex import (
    BaseTool,
    BaseToolSpec,
    FunctionTool,
    make_image_block,
    make_output,
    make_text_block,
)

WORD = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}


def turn(word: str) -> Any:
    """Turns a word."""
    return {"turned": word[::-1]}


async def test_a_function_is_listed_with_its_schema_and_runs_in_a_thread() -> None:
    framework_tool = FunctionTool(turn, WORD)
    assert convert_tool(framework_tool) is not None
    async with serve_tools(build_entry(framework_tool)) as client:
        assert await get_input_schema(client, "turn") == WORD
        answer = await client.call_tool("turn", {"word": "ab"})
    assert answer.content[0].text == "{'turned': 'ba'}"
    assert answer.structured_content == {"turned": "ba"}
    assert framework_tool.calls == ["call"]


async def test_an_async_function_runs_on_asyncio_under_both_event_loops() -> None:
    async def where() -> str:
        """Return which loop it is in."""
        await asyncio.sleep(0)
        return type(asyncio.current_task()).__name__

    framework_tool = FunctionTool(where, {"type": "object"})
    async with serve_tools(build_entry(framework_tool)) as client:
        assert await call_text(client, "where") == "Task"
    assert framework_tool.calls == ["acall"]


async def test_an_error_of_a_tool_has_its_text() -> None:
    def lost(word: str) -> Any:
        """Loses it."""
        return make_output(make_text_block(f"no {word} here"), is_error=True)

    async with serve_tools(build_entry(FunctionTool(lost, WORD))) as client:
        assert await call_text(client, "lost", word="key") == "tool_error: no key here"


async def test_images_are_content_and_links_are_not_fetched() -> None:
    def draw() -> Any:
        """Draws."""
        url = "https://example.org/cat.png"
        return make_output(make_text_block("here"), make_image_block(base64.b64encode(PNG)), make_image_block(url=url))

    async with serve_tools(build_entry(FunctionTool(draw, {"type": "object"}))) as client:
        first, second, third = (await client.call_tool("draw", {})).content
    assert first.text == "here"
    assert base64.b64decode(second.data) == PNG
    assert (third.type, third.uri) == ("resource_link", "https://example.org/cat.png")


async def test_a_tool_without_a_call_method_is_called_as_a_function() -> None:
    class Plain(BaseTool):  # type: ignore[misc]
        metadata = FunctionTool(turn, WORD).metadata

        def __call__(self, word: str) -> Any:
            return make_output(make_text_block(word.upper()))

    async with serve_tools(build_entry(Plain())) as client:
        assert await call_text(client, "turn", word="ab") == "AB"


def test_a_tool_that_needs_a_workflow_is_not_published() -> None:
    framework_tool = FunctionTool(turn, WORD)
    framework_tool.requires_context, framework_tool.ctx_param_name = True, "ctx"
    with pytest.raises(SourceError, match="'turn' needs the context of a workflow as 'ctx'"):
        build_entry(framework_tool)


async def test_a_tool_spec_is_a_set_of_tools() -> None:
    class Words(BaseToolSpec):
        spec_functions = ("up", "down")

        def up(self) -> str:
            """Up."""
            return "UP"

        def down(self) -> str:
            """Down."""
            return "down"

    assert convert_tool(Words()) is None
    async with convert_toolbox(Words()) as box, serve_tools(*await box.list_entries()) as client:
        assert await call_text(client, "up") == "UP"
