"""Resources, prompts and conversations in MCP's shapes, and content blocks on their way back."""

from __future__ import annotations

import base64
import datetime
from pathlib import PurePosixPath
from typing import Any

import pytest

from mcp_bridge import Audio, EmbeddedResource, Image, Message, ResourceLink, Text, ToolResult
from mcp_bridge._contracts.content import Content
from mcp_bridge._protocol.wire import listings
from mcp_bridge._protocol.wire.content import render_block
from mcp_bridge._protocol.wire.content_reader import from_block
from mcp_bridge._protocol.wire.messages import render_messages, to_messages
from mcp_bridge._protocol.wire.resource_contents import render_contents, to_contents
from mcp_bridge.sources import PromptArgument, PromptEntry, ResourceEntry, ResourceTemplate

NEW = "2026-07-28"
PNG = b"\x89PNG\r\n\x1a\n"


def read(answer: Any, mime_type: str | None = None) -> list[dict[str, Any]]:
    return render_contents(to_contents(answer, "a://b", mime_type), NEW)


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        ("text", {"mimeType": "text/plain", "text": "text"}),
        ({"a": 1}, {"mimeType": "application/json", "text": '{"a":1}'}),
        ([1, "b"], {"mimeType": "application/json", "text": '[1,"b"]'}),
        ([], {"mimeType": "application/json", "text": "[]"}),
        (None, {"mimeType": "application/json", "text": "null"}),
        (datetime.date(2026, 7, 28), {"mimeType": "text/plain", "text": "2026-07-28"}),
        (PurePosixPath("/a"), {"mimeType": "text/plain", "text": "/a"}),
        (PNG, {"mimeType": "image/png", "blob": base64.b64encode(PNG).decode()}),
        (b"\x00", {"mimeType": "application/octet-stream", "blob": "AA=="}),
        (Text("t", meta={"k": 1}), {"mimeType": "text/plain", "text": "t", "_meta": {"k": 1}}),
        (Image(b"\x00", "image/gif"), {"mimeType": "image/gif", "blob": "AA=="}),
        (ToolResult(output="said"), {"mimeType": "text/plain", "text": "said"}),
        (ToolResult(content=[Text("shown")]), {"mimeType": "text/plain", "text": "shown"}),
    ],
    ids=repr,
)
def test_the_contents_of_a_resource_have_its_uri(answer: Any, content: dict[str, Any]) -> None:
    assert read(answer) == [{"uri": "a://b", **content}]


def test_the_media_type_of_the_entry_has_priority_and_each_content_has_a_uri() -> None:
    assert read("x,y", "text/csv")[0]["mimeType"] == "text/csv"
    several = read([EmbeddedResource("a://1", "one"), Text("two"), b"\x00"])
    assert [item["uri"] for item in several] == ["a://1", "a://b", "a://b"]
    broken: Any = EmbeddedResource("a://1", "one", meta={"k": 1})
    object.__setattr__(broken, "content", object())
    assert read(broken)[0]["uri"] == "a://1"


def test_a_failure_of_a_resource_or_a_prompt_is_passed_unchanged() -> None:
    failed = ToolResult(success=False, error="no")
    assert to_contents(failed, "a://b", None) is failed
    assert to_messages(failed) is failed


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        ("hello", [("user", {"type": "text", "text": "hello"})]),
        (
            ["a", Message("b", "assistant")],
            [("user", {"type": "text", "text": "a"}), ("assistant", {"type": "text", "text": "b"})],
        ),
        ({"role": "assistant", "content": "hi"}, [("assistant", {"type": "text", "text": "hi"})]),
        ({"a": 1}, [("user", {"type": "text", "text": '{"a":1}'})]),
        (Message(PNG), [("user", render_block(Image(PNG, "image/png"), NEW))]),
        (ToolResult(output="said"), [("user", {"type": "text", "text": "said"})]),
        (ToolResult(content=[Text("shown")]), [("user", {"type": "text", "text": "shown"})]),
    ],
    ids=repr,
)
def test_the_return_value_of_a_prompt_becomes_messages(answer: Any, content: list[Any]) -> None:
    messages = render_messages(to_messages(answer).content or (), NEW)
    assert [(item["role"], item["content"]) for item in messages] == content


@pytest.mark.parametrize("answer", [None, Message("x", "system")], ids=repr)  # type: ignore[arg-type]
def test_invalid_messages_are_rejected(answer: Any) -> None:
    with pytest.raises(ValueError, match=r"found nothing|one of user, assistant"):
        to_messages(answer)


def test_a_conversation_may_have_messages_as_mcp_writes_them() -> None:
    raw = {"role": "user", "content": {"type": "tool_result", "toolUseId": "1", "content": []}}
    assert render_messages([raw, "plain"], NEW) == [raw, {"role": "user", "content": {"type": "text", "text": "plain"}}]


@pytest.mark.parametrize(
    "content",
    [
        Text("t", annotations={"priority": 0.5}),
        Image(b"\x00", "image/png"),
        Audio(b"\x00", "audio/wav"),
        EmbeddedResource("a://b", "text", "text/plain"),
        EmbeddedResource("a://b", b"\x00"),
        ResourceLink("a://b", "b", "B", "The b.", "text/plain", 3),
    ],
    ids=lambda content: type(content).__name__,
)
def test_a_block_is_read_as_it_was_rendered(content: Content) -> None:
    back = from_block(render_block(content, NEW))
    assert isinstance(back, Content)
    assert render_block(back, NEW) == render_block(content, NEW)


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "tool_use", "id": "1", "name": "t", "input": {}},
        {"type": "image", "data": "é", "mimeType": "image/png"},
        {"type": "image", "data": 5, "mimeType": "image/png"},
        {"type": "text"},
        {},
    ],
)
def test_an_unknown_block_is_unchanged(odd: dict[str, Any]) -> None:
    assert from_block(odd) is odd


def handler(data: Any) -> str:
    return "x"


def test_a_listing_has_the_valid_fields_of_its_version() -> None:
    icon = {"src": "https://example.com/i.png"}
    shared: Any = {"title": "T", "icons": [icon, {"src": "file:///x"}], "meta": {"k": 1}}
    entry = ResourceEntry(
        "a://b", handler, "b", "The b.", mime_type="text/csv", size=3, annotations={"priority": 1}, **shared
    )
    assert listings.render_resource(entry, NEW) == {
        "uri": "a://b", "name": "b", "title": "T", "description": "The b.", "icons": [icon], "_meta": {"k": 1},
        "size": 3, "mimeType": "text/csv", "annotations": {"priority": 1},
    }  # fmt: skip
    assert listings.render_resource(entry, "2024-11-05").keys() == {
        "uri",
        "name",
        "description",
        "size",
        "mimeType",
        "annotations",
    }
    odd: Any = ResourceEntry("a://b", handler, size=-1)
    assert listings.render_resource(odd, NEW) == {"uri": "a://b", "name": "a://b"}
    template = ResourceTemplate("a://{b}", handler)
    assert listings.render_template(template, NEW) == {"uriTemplate": "a://{b}", "name": "a://{b}"}
    prompt = PromptEntry("p", handler, "D", [PromptArgument("a", "An a.", True, "A"), PromptArgument("b")], **shared)
    listing = listings.render_prompt(prompt, NEW)
    assert listing["arguments"] == [
        {"name": "a", "title": "A", "description": "An a.", "required": True},
        {"name": "b", "required": False},
    ]
    assert "title" not in listings.render_prompt(prompt, "2025-03-26")["arguments"][0]


def test_entries_need_a_handler_and_prompts_their_arguments() -> None:
    no: Any = None
    for make in (
        lambda: ResourceEntry("a://b", no),
        lambda: ResourceTemplate("a://{b}", no),
        lambda: PromptEntry("p", no),
    ):
        with pytest.raises(TypeError, match="needs a callable handler"):
            make()
    with pytest.raises(TypeError, match="PromptArguments"):
        PromptEntry("p", handler, "", ["a"])  # type: ignore[list-item]
