"""Tools return content blocks and results of the MCP SDK, and images from files."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp.types as sdk
import pytest
from mcp.server.mcpserver import Image as SdkImage

from mcp_bridge import Audio, Image, ToolRegistry, prompt, tool
from mcp_bridge.testing import connect
from tests.kits.wire.speaking import ERAS, call, dump_json, list_tools

PIXEL = base64.b64encode(b"\x89PNG\r\n").decode()
TEXT = {"type": "text", "text": "a"}
IMAGE = {
    "type": "image",
    "data": PIXEL,
    "mimeType": "image/png",
    "annotations": {"audience": ["user"]},
    "_meta": {"k": 1},
}
BLOCKS: list[dict[str, Any]] = [
    TEXT,
    IMAGE,
    {"type": "audio", "data": PIXEL, "mimeType": "audio/wav"},
    {"type": "resource", "resource": {"uri": "note://a", "mimeType": "text/plain", "text": "a"}},
    {"type": "resource", "resource": {"uri": "note://b", "blob": PIXEL}},
    {"type": "resource_link", "uri": "note://c", "name": "c", "size": 3},
]
MODELS = [sdk.TextContent, sdk.ImageContent, sdk.AudioContent, *[sdk.EmbeddedResource] * 2, sdk.ResourceLink]


def make_block(number: int) -> Any:
    return MODELS[number].model_validate(BLOCKS[number])


def serve(function: Callable[..., Any]) -> ToolRegistry:
    registry = ToolRegistry()
    tool("t", registry=registry)(function)
    return registry


@pytest.mark.parametrize("number", range(len(BLOCKS)))
async def test_a_block_of_the_sdk_is_sent_as_such(number: int) -> None:
    def show() -> MODELS[number]:  # type: ignore[valid-type]
        return make_block(number)

    async with connect(serve(show)) as client:
        assert (await call(client))["content"] == [BLOCKS[number]]


@ERAS
async def test_blocks_in_a_list_are_sent_in_addition_to_text_and_data(mode: str) -> None:
    def show() -> list[sdk.ContentBlock | str | dict[str, int]]:
        return [make_block(number) for number in range(len(BLOCKS))] + ["b", {"c": 1}]

    async with connect(serve(show), mode=mode) as client:
        (definition,) = await list_tools(client)
        result = await call(client)
    assert "outputSchema" not in definition
    assert result["content"] == [*BLOCKS, {"type": "text", "text": "b"}, {"type": "text", "text": '{"c":1}'}]


async def test_a_result_of_the_sdk_is_sent_with_its_structure_and_meta() -> None:
    def show() -> sdk.CallToolResult:
        return sdk.CallToolResult(content=[make_block(1)], structuredContent={"n": 1}, _meta={"m": 2})

    async with connect(serve(show)) as client:
        result = await call(client)
    assert result["content"] == [IMAGE]
    assert result["structuredContent"] == {"n": 1}
    assert result["_meta"]["m"] == 2


async def test_an_error_of_the_sdk_is_an_error() -> None:
    def show() -> Any:
        return sdk.CallToolResult(content=[make_block(0), make_block(1)], isError=True)

    async with connect(serve(show)) as client:
        result = await call(client)
    assert result["isError"]
    assert result["content"] == [TEXT, IMAGE]


async def test_a_generator_may_yield_blocks() -> None:
    def show() -> Any:
        yield make_block(1)

    async with connect(serve(show)) as client:
        assert (await call(client))["content"] == [IMAGE]


async def test_an_image_class_of_the_sdk_is_an_image() -> None:
    async with connect(serve(lambda: ["a", SdkImage(data=b"\x89PNG\r\n", format="png")])) as client:
        first, second = (await call(client))["content"]
    assert first == TEXT
    assert (second["type"], second["data"], second["mimeType"]) == ("image", PIXEL, "image/png")


async def test_a_prompt_may_return_messages_of_the_sdk() -> None:
    registry = ToolRegistry()

    @prompt(registry=registry)
    def ask() -> list[sdk.PromptMessage]:
        return [sdk.PromptMessage(role="assistant", content=make_block(1))]

    async with connect(registry) as client:
        (message,) = dump_json(await client.get_prompt("ask"))["messages"]
    assert message == {"role": "assistant", "content": IMAGE}


def test_serving_a_block_of_the_sdk_does_not_import_it() -> None:
    code = (
        "import sys; from mcp_bridge._protocol.wire.values import to_result; from mcp_bridge import Image; "
        "to_result([Image(b'a', format='png'), {1}]); print(*sys.modules)"
    )
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"mcp", "mcp_types", "fastmcp"} & {*modules}


# Images and audio from files


@pytest.mark.parametrize(
    ("block", "media_type"),
    [
        (lambda path: Image(path=path / "a.jpg"), "image/jpeg"),
        (lambda path: Image(path=str(path / "a.jpg"), format="webp"), "image/webp"),
        (lambda path: Image(path=path / "a"), "image/png"),
        (lambda path: Image(b"x", format="JPG"), "image/jpeg"),
        (lambda path: Image(b"x"), "image/png"),
        (lambda path: Audio(path=path / "a.mp3"), "audio/mpeg"),
        (lambda path: Audio(b"x", format="wav"), "audio/wav"),
    ],
)
async def test_a_file_or_format_gives_bytes_and_media_type(
    block: Callable[[Path], Any], media_type: str, tmp_path: Path
) -> None:
    for name in ("a.jpg", "a.mp3", "a"):
        (tmp_path / name).write_bytes(b"x")
    async with connect(serve(lambda: block(tmp_path))) as client:
        (content,) = (await call(client))["content"]
    assert (content["data"], content["mimeType"]) == (base64.b64encode(b"x").decode(), media_type)


@pytest.mark.parametrize("arguments", [{}, {"data": b"x", "path": "a.png"}], ids=["neither", "both"])
def test_an_image_has_either_bytes_or_a_path(arguments: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="Image takes either its bytes or path="):
        Image(**arguments)
