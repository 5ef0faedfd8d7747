"""Tools of simonw/llm, served as they are."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._contracts.source import SourceContext
from mcp_bridge._integrations.frameworks.discovery import convert_tool, convert_toolbox
from mcp_bridge._integrations.frameworks.llm import build_entry
from mcp_bridge._integrations.frameworks.source import FrameworkOptions, FrameworkSource
from mcp_bridge.testing import connect
from tests.kits.frameworks.environments import require_framework
from tests.kits.frameworks.shapes_kit import PNG, call_text, get_input_schema, serve_tools

require_framework("llm")

import llm


def upper(text: str, times: int = 1) -> str:
    """Say it louder."""
    return text.upper() * times


async def test_a_function_is_listed_and_called_with_the_arguments() -> None:
    framework_tool = llm.Tool.function(upper)
    assert convert_tool(framework_tool) is not None
    async with serve_tools(build_entry(framework_tool)) as client:
        input_schema = await get_input_schema(client, "upper")
        assert input_schema["required"] == ["text"]
        assert input_schema["properties"]["times"]["default"] == 1
        assert await call_text(client, "upper", text="a") == "A"
        assert await call_text(client, "upper", text="a", times=2) == "AA"


async def test_an_async_function_runs_on_asyncio_under_both_event_loops() -> None:
    async def where() -> str:
        """Return which loop it is in."""
        await asyncio.sleep(0)
        return type(asyncio.current_task()).__name__

    async with serve_tools(build_entry(llm.Tool.function(where))) as client:
        assert await call_text(client, "where") == "Task"


async def test_a_function_may_have_a_parameter_for_the_call() -> None:
    def about(word: str, llm_tool_call: Any) -> str:
        """Tells of the call."""
        return f"{llm_tool_call.name} {llm_tool_call.arguments} {bool(llm_tool_call.tool_call_id)}"

    async with serve_tools(build_entry(llm.Tool.function(about))) as client:
        assert list((await get_input_schema(client, "about"))["properties"]) == ["word"]
        assert await call_text(client, "about", word="a") == "about {'word': 'a'} True"


async def test_attachments_are_content_and_links_are_not_fetched(tmp_path: Path) -> None:
    (tmp_path / "sound.wav").write_bytes(b"RIFF\0\0\0\0WAVE")

    def draw() -> Any:
        """Draws."""
        return llm.ToolOutput(
            output={"drawn": 3},
            attachments=[
                llm.Attachment(type="image/png", content=PNG),
                llm.Attachment(path=str(tmp_path / "sound.wav")),
                llm.Attachment(url="https://example.org/cat.png"),
            ],
        )

    async with serve_tools(build_entry(llm.Tool.function(draw))) as client:
        answer = await client.call_tool("draw", {})
    assert [block.type for block in answer.content] == ["text", "image", "audio", "resource_link"]
    assert answer.structured_content == {"drawn": 3}


async def test_an_output_without_attachments_is_the_result() -> None:
    def plain() -> Any:
        """Plain."""
        return llm.ToolOutput(output="verbatim\n")

    async with serve_tools(build_entry(llm.Tool.function(plain))) as client:
        assert await call_text(client, "plain") == "verbatim\n"


def test_a_tool_without_an_implementation_is_not_published() -> None:
    with pytest.raises(SourceError, match="'far' has no implementation"):
        build_entry(llm.Tool(name="far", description="Far away."))


class Notes(llm.Toolbox):
    """A toolbox with state, and with an additional tool after its preparation."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def prepare(self) -> None:
        self.notes.append("prepared")

    async def prepare_async(self) -> None:
        await asyncio.sleep(0)
        self.add_tool(upper)

    def add(self, note: str) -> str:
        """Note it."""
        self.notes.append(note)
        return ", ".join(self.notes)

    def far(self) -> None:
        """Far."""


async def test_a_toolbox_is_prepared_once_and_has_a_lasting_state() -> None:
    box = Notes()
    box.add_tool(llm.Tool(name="nowhere"))
    assert convert_tool(box) is None
    async with convert_toolbox(box) as toolbox:
        entries = await toolbox.list_entries()
        assert [entry.name for entry in entries] == ["Notes_add", "Notes_far", "upper"]
        assert toolbox.problems == ["the llm tool 'nowhere' has no implementation. Give it one"]  # type: ignore[attr-defined]
        async with serve_tools(*entries) as client:
            assert await call_text(client, "Notes_add", note="a") == "prepared, a"
            assert await call_text(client, "Notes_add", note="b") == "prepared, a, b"
            assert await call_text(client, "upper", text="a") == "A"


async def test_the_class_of_a_toolbox_can_be_named_in_the_settings(tmp_path: Path) -> None:
    (tmp_path / "boxed.py").write_text("from tests.integrations.frameworks.test_llm_tools import Notes\n", "utf-8")
    source = FrameworkSource("s", FrameworkOptions(objects=["boxed:Notes"]), SourceContext(directory=tmp_path))
    async with connect(Bridge(sources=[AttachedSource(source=source)])) as client:
        assert await call_text(client, "Notes_add", note="a") == "prepared, a"
