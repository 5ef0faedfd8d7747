"""Tools of smolagents, served as they are."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._integrations.frameworks.discovery import convert_tool, convert_toolbox
from mcp_bridge._integrations.frameworks.smolagents import build_entry
from tests.kits.frameworks.environments import require_framework
from tests.kits.frameworks.shapes_kit import PNG, call_text, get_input_schema, serve_tools

require_framework("smolagents")

from PIL import Image
from smolagents import Tool, ToolCollection, tool
from smolagents.agent_types import AgentImage


@tool
def search(query: str, limit: int | None = None, words: list[str] | None = None) -> str:
    """Searches.

    Args:
        query: What for.
        limit: How many.
        words: Which.
    """
    return f"{query} {limit} {words}"


class Drawing(Tool):
    name = "drawing"
    description = "Draws."
    inputs = {"how": {"type": "string", "description": "How."}, "more": {"type": "any", "description": "Anything."}}
    output_type = "image"
    folder: Path

    def forward(self, how: str, more: Any) -> Any:
        picture = Image.open(io.BytesIO(PNG))
        (self.folder / "it.png").write_bytes(PNG)
        return {"pil": picture, "agent": AgentImage(picture), "path": str(self.folder / "it.png"), "bytes": PNG}[how]


async def test_a_decorated_function_is_listed_with_its_inputs_and_called() -> None:
    assert convert_tool(search) is not None
    async with serve_tools(build_entry(search)) as client:
        input_schema = await get_input_schema(client, "search")
        assert input_schema["required"] == ["query"]
        assert input_schema["properties"]["limit"] == {"type": ["integer", "null"], "description": "How many."}
        assert input_schema["properties"]["words"]["items"] == {"type": "string"}
        assert await call_text(client, "search", query="a") == "a None None"
        assert await call_text(client, "search", query="a", limit=None, words=["b"]) == "a None ['b']"
        assert (await call_text(client, "search", query="a", limit="x")).startswith("invalid_arguments")
        assert (await call_text(client, "search", query="a", sanitize_inputs_outputs=True)).startswith(
            "invalid_arguments"
        )


@pytest.mark.parametrize("how", ["pil", "agent", "path", "bytes"])
async def test_an_image_in_any_form_is_image_content(tmp_path: Path, how: str) -> None:
    drawing = Drawing()
    drawing.folder = tmp_path
    async with serve_tools(build_entry(drawing)) as client:
        assert "type" not in (await get_input_schema(client, "drawing"))["properties"]["more"]
        (block,) = (await client.call_tool("drawing", {"how": how, "more": [1]})).content
    assert (block.type, block.mime_type) == ("image", "image/png")
    assert Image.open(io.BytesIO(base64.b64decode(block.data))).size == (1, 1)


async def test_set_up_is_done_at_the_first_call() -> None:
    class Lazy(Tool):
        name = "lazy"
        description = "Lazy."
        inputs: dict[str, Any] = {}
        output_type = "object"
        ready = 0

        def setup(self) -> None:
            self.ready += 1
            self.is_initialized = True

        def forward(self) -> Any:
            return {"ready": self.ready}

    framework_tool = Lazy()
    entry = build_entry(framework_tool)
    assert framework_tool.ready == 0
    async with serve_tools(entry) as client:
        for _ in range(2):
            assert (await client.call_tool("lazy", {})).structured_content == {"ready": 1}


async def test_the_text_of_an_exception_is_not_in_the_result() -> None:
    class Broken(Tool):
        name = "broken"
        description = "Broken."
        inputs: dict[str, Any] = {}
        output_type = "string"

        def forward(self) -> str:
            raise RuntimeError("secret detail")

    async with serve_tools(build_entry(Broken())) as client:
        text = await call_text(client, "broken")
    assert text.startswith("internal_error")
    assert "secret" not in text


def test_a_tool_that_needs_an_image_is_not_published() -> None:
    class Looking(Tool):
        name = "looking"
        description = "Looks."
        inputs = {"picture": {"type": "image", "description": "What at."}}
        output_type = "string"

        def forward(self, picture: Any) -> str:
            return "seen"

    with pytest.raises(SourceError, match="'looking' needs image as 'picture', which no client can send"):
        build_entry(Looking())


async def test_a_collection_is_a_set_of_tools() -> None:
    collection = ToolCollection([search])
    assert convert_tool(collection) is None
    async with convert_toolbox(collection) as box:
        assert [entry.name for entry in await box.list_entries()] == ["search"]
