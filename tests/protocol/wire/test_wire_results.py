"""Results on the wire: every kind of content, failures, and the table from error to outcome."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from mcp_bridge import Audio, EmbeddedResource, Image, ResourceLink, Text, ToolError, ToolResult
from mcp_bridge._contracts import errors
from mcp_bridge._contracts.tool import ToolDefinition
from mcp_bridge._protocol.wire.outcomes import TABLE, to_error_result
from mcp_bridge._protocol.wire.tools import WireTool, to_mcp, to_wire
from mcp_bridge._protocol.wire.values import to_result
from mcp_bridge.content import Content
from mcp_bridge.errors import CallError
from mcp_bridge.tool_use import Result, ResultStatus
from tests.kits.constants import STATELESS
from tests.kits.wire.speaking import (
    EVERY_VERSION,
    NEWEST_HANDSHAKE,
    VERSIONS,
    build_registry,
    call,
    connect_with_version,
    get_text,
    make_constant_tool,
    make_entry,
    serialize_for_client,
)

BYTES = b"\x00\xff raw"
BASE64 = base64.b64encode(BYTES).decode()
NOTES: dict[str, Any] = {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-01T00:00:00Z"}
PLAIN_TOOL = to_wire(ToolDefinition("t", "", "m"))


def render_result(answer: Any, version: str = STATELESS, tool: WireTool = PLAIN_TOOL) -> dict[str, Any]:
    """Return the result for a client of this version, checked against the schema of the version."""
    return serialize_for_client("tools/call", version, to_mcp(to_result(answer), tool, version))


def list_codes(result: dict[str, Any]) -> str | None:
    return result.get("_meta", {}).get("mcp-bridge/code")


# Content


KINDS: list[tuple[Content, dict[str, Any], str]] = [
    (Text("hello \ud800"), {"type": "text", "text": "hello \ufffd"}, ""),
    (Image(BYTES, "image/png"), {"type": "image", "data": BASE64, "mimeType": "image/png"}, ""),
    (Audio(BYTES, "audio/wav"), {"type": "audio", "data": BASE64, "mimeType": "audio/wav"}, "2025-03-26"),
    (EmbeddedResource("a:b", "text"), {"type": "resource", "resource": {"uri": "a:b", "text": "text"}}, ""),
    (
        EmbeddedResource("a:b", bytearray(BYTES), "x/y"),
        {"type": "resource", "resource": {"uri": "a:b", "blob": BASE64, "mimeType": "x/y"}},
        "",
    ),
    (ResourceLink("a:b", "n"), {"type": "resource_link", "uri": "a:b", "name": "n"}, "2025-06-18"),
    (
        ResourceLink("a:b", "n", "T", "D", "x/y", 7),
        {
            "type": "resource_link",
            "uri": "a:b",
            "name": "n",
            "title": "T",
            "description": "D",
            "mimeType": "x/y",
            "size": 7,
        },
        "2025-06-18",
    ),
]


@pytest.mark.parametrize(("block", "expected", "since"), KINDS, ids=lambda parameter: type(parameter).__name__)
def test_every_type_of_content_is_rendered_for_each_version(
    block: Content, expected: dict[str, Any], since: str
) -> None:
    annotated_block = type(block)(
        **{name: getattr(block, name) for name in list_fields(block)}, annotations=NOTES, meta={"a/b": 1}
    )
    for version in VERSIONS:
        [bare], [full] = render_result(block, version)["content"], render_result([annotated_block], version)["content"]
        if version >= since:
            assert bare == expected
            assert {key: full[key] for key in expected} == expected
        else:
            assert bare["type"] == "text"
            assert "a:b" in bare["text"] or "audio content" in bare["text"]
        assert full["annotations"] == NOTES
        assert full.get("_meta") == ({"a/b": 1} if version >= "2025-06-18" else None)


def list_fields(block: Content) -> list[str]:
    return [name for name in type(block).__dataclass_fields__ if name not in ("annotations", "meta")]


@dataclass(frozen=True, slots=True)
class Loud(Text):
    """An author's own kind of text."""


@dataclass(frozen=True, slots=True)
class Chart(Content):
    """A class of content outside of MCP."""

    points: tuple[int, ...] = ()


class Rude:
    def __str__(self) -> str:
        raise RuntimeError("do not ask")


def make_cycle() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


ODD: dict[str, tuple[Any, str]] = {
    "data that is text": (Image("abc", "image/png"), "must be bytes"),  # type: ignore[arg-type]
    "data that is nothing": (Image(None, "image/png"), "must be bytes"),  # type: ignore[arg-type]
    "an author's own text": (Loud("loud"), "loud"),
    "an unknown kind": (Chart(points=(1, 2)), '"points":[1,2]'),
    "no content at all": (object(), "object"),
    "a dictionary": ({"type": "text", "text": "x"}, '{"type":"text","text":"x"}'),
    "what cannot be read": (Rude(), "cannot be shown"),
    "text that cannot be read": (Text(Rude()), "cannot be shown"),  # type: ignore[arg-type]
    "annotations of wrong types": (Text("x", annotations={"audience": "me", "priority": 5, "lastModified": 3}), "x"),
    "an unknown audience": (Text("x", annotations={"audience": ["robots"], "mine": 1}), "x"),
    "annotations that are text": (Text("x", annotations="loud"), "x"),  # type: ignore[arg-type]
    "meta that is text": (Text("x", meta="loud"), "x"),  # type: ignore[arg-type]
    "meta that contains itself": (Text("x", meta=make_cycle()), "x"),
    "text in a list": ("a plain \ud800 text", "a plain \ufffd text"),
}


@pytest.mark.parametrize("oddity", ODD)
def test_a_malformed_block_becomes_text_and_affects_no_other_block(oddity: str) -> None:
    block, expected = ODD[oddity]
    for version in (NEWEST_HANDSHAKE, STATELESS):
        first, odd, last = render_result(ToolResult(content=[Text("before"), block, Text("after")]), version)["content"]
        assert (first["text"], last["text"]) == ("before", "after")
        assert expected in odd["text"]
        assert "annotations" not in odd
        assert "_meta" not in odd


def test_a_link_with_malformed_fields_keeps_the_valid_ones() -> None:
    link = ResourceLink("a:\ud800", "n\ud800", 3, None, 4.5, "big")  # type: ignore[arg-type]
    assert render_result(link, "2025-03-26")["content"] == [{"type": "text", "text": "[resource n\ufffd: a:\ufffd]"}]
    assert render_result(link)["content"] == [
        {"type": "resource_link", "uri": "a:\ufffd", "name": "n\ufffd", "title": "3", "mimeType": "4.5"}
    ]


@pytest.mark.parametrize("content", ["just text", Text("just text")])
def test_content_that_is_not_a_list_is_one_block(content: Any) -> None:
    assert render_result(ToolResult(content=content))["content"] == [{"type": "text", "text": "just text"}]


@pytest.mark.parametrize(
    ("data", "block_type", "mime"),
    [
        (b"\x89PNG\r\n\x1a\n", "image", "image/png"),
        (b"\xff\xd8\xff\xe0", "image", "image/jpeg"),
        (b"GIF89a", "image", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8", "image", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WAVEfmt", "audio", "audio/wav"),
        (b"ID3\x04", "audio", "audio/mpeg"),
        (b"OggS", "audio", "audio/ogg"),
        (b"fLaC", "audio", "audio/flac"),
        (b"%PDF-1.7", "resource", "application/pdf"),
        (b"RIFF\x00\x00\x00\x00AVI ", "resource", "application/octet-stream"),
        (b"", "resource", "application/octet-stream"),
    ],
)
def test_the_type_of_bytes_follows_from_their_signature(data: bytes, block_type: str, mime: str) -> None:
    [block] = render_result(bytearray(data))["content"]
    assert block["type"] == block_type
    holder = block.get("resource", block)
    assert holder["mimeType"] == mime
    assert base64.b64decode(holder.get("blob", holder.get("data"))) == data


def test_a_list_may_mix_content_bytes_and_data() -> None:
    content = render_result((Text("a"), b"GIF89a", {"n": float("nan")}, "b", None))["content"]
    assert [block["type"] for block in content] == ["text", "image", "text", "text", "text"]
    assert [block["text"] for block in content if block["type"] == "text"] == ["a", '{"n":null}', "b", "null"]


def test_no_return_value_is_a_result_without_content() -> None:
    for version in VERSIONS:
        result = render_result(None, version)
        assert (result["content"], result.get("isError")) == ([], None)


def test_content_with_an_output_is_shown_instead_of_it_and_the_output_stays_structured() -> None:
    result = render_result(ToolResult(output={"n": 1}, content=[Text("one")], meta={"a/b": 2}))
    assert get_text(result) == "one"
    assert result["structuredContent"] == {"n": 1}
    assert result["_meta"] == {"a/b": 2}


def test_content_without_an_output_has_no_structured_content() -> None:
    tool = to_wire(ToolDefinition("t", "", "m", output_schema={"type": "object"}))
    result = ToolResult(content=[Text("x")])
    assert "structuredContent" not in to_mcp(result, tool, "2025-11-25")
    assert "structuredContent" not in to_mcp(result, tool, STATELESS)


@pytest.mark.parametrize("meta", [make_cycle(), {"a": Rude()}, "loud"], ids=lambda meta: type(meta).__name__)
def test_meta_that_cannot_be_sent_is_left_out(meta: Any) -> None:
    result = render_result(ToolResult(output="fine", meta=meta))
    assert get_text(result) == "fine"
    assert "_meta" not in result


# Failures


@pytest.mark.parametrize("output_schema", [{}, {"type": "object", "required": ["a"]}, {"type": "array"}], ids=str)
def test_a_failure_has_a_code_and_no_structured_content(output_schema: dict[str, Any]) -> None:
    tool = to_wire(ToolDefinition("t", "", "m", output_schema=output_schema))
    for version in VERSIONS:
        result = render_result(to_error_result(ToolError("no such city", code="unknown_city")), version, tool)
        assert result["isError"] is True
        assert get_text(result) == "no such city"
        assert "structuredContent" not in result
        assert list_codes(result) == ("unknown_city" if version >= "2025-06-18" else None)


FAILURES: list[tuple[ToolResult, list[str]]] = [
    (ToolResult(success=False), ["The tool failed without an error message."]),
    (ToolResult(is_error=True, error="no"), ["no"]),
    (ToolResult(success=False, error={"message": "no", "type": "X"}), ["no"]),
    (ToolResult(success=False, error={"type": "X"}), ["The tool failed without an error message."]),
    (ToolResult(success=False, error="no", output={"n": 1}), ["no", '{"n":1}']),
    (ToolResult(success=False, error="no", output="no"), ["no"]),
    (ToolResult(success=False, error="3", output=3), ["3"]),
    (ToolResult(success=False, output="only output"), ["only output"]),
    (ToolResult(success=False, error="no", content=[Text("said before")]), ["no", "said before"]),
    (ToolResult(success=False, content=[Text("said before")]), ["said before"]),
    (ToolResult(success=False, content=[]), ["The tool failed without an error message."]),
    (ToolResult(success=False, error="\ud800"), ["\ufffd"]),
]


@pytest.mark.parametrize(("answer", "expected"), FAILURES)
def test_a_returned_failure_is_passed_unchanged(answer: ToolResult, expected: list[str]) -> None:
    result = render_result(answer)
    assert result["isError"] is True
    assert [block["text"] for block in result["content"]] == expected


@pytest.mark.parametrize(
    ("answer", "text", "code"),
    [
        (Result.failure("no", ["first", "no"]), "no\n- first", "failure"),
        (Result(ResultStatus.TIMEOUT), "timeout", "timeout"),
        (Result(ResultStatus.PARTIAL, data="half", message="so far"), "so far\nhalf", "partial"),
        (Result.success({"n": 1}, metadata={"a/b": 1}), '{"n":1}', None),
    ],
)
def test_a_result_of_the_tool_use_api_is_translated(answer: Result, text: str, code: str | None) -> None:
    result = render_result(answer)
    assert (get_text(result), result.get("isError", False), list_codes(result)) == (text, code is not None, code)


# The table


def list_leaf_classes(kind: type[CallError]) -> Iterator[type[CallError]]:
    """Yield the classes of this package below `kind` without subclasses."""
    below = [error_type for error_type in kind.__subclasses__() if error_type.__module__.startswith("mcp_bridge")]
    if not below:
        yield kind
    for error_type in below:
        yield from list_leaf_classes(error_type)


def test_every_error_has_one_row_and_a_unique_code() -> None:
    assert [row.error for row in TABLE] == sorted(list_leaf_classes(CallError), key=[row.error for row in TABLE].index)
    assert len({row.code for row in TABLE}) == len(TABLE)
    assert all(row.code and row.meaning and row.advice for row in TABLE)


MADE: dict[type[CallError], CallError] = {
    errors.InvalidArguments: errors.InvalidArguments(["a: required"], tool="t"),
    errors.InvalidOutput: errors.InvalidOutput(["a: required"], tool="t", output={"b": 1}),
    errors.ToolTimeout: errors.ToolTimeout("t", 1.5),
    errors.ToolCrashed: errors.ToolCrashed("t", "was ended by SIGSEGV"),
    errors.ToolFailed: errors.ToolFailed("t", "ref", shown="ValueError: x"),
    errors.MissingCapability: errors.MissingCapability({"sampling": {"tools": {}}}),
}


@pytest.mark.parametrize("error_type", [row.error for row in TABLE], ids=lambda error_type: error_type.__name__)
def test_every_error_is_a_result_with_its_text_and_code(error_type: type[CallError]) -> None:
    error = MADE.get(error_type) or error_type("what was wrong", details=["what to do"])
    result = render_result(to_error_result(error))
    assert result["isError"] is True
    assert list_codes(result) == error_type.code
    assert get_text(result).startswith(error.text)


def test_a_subclass_of_content_is_rendered_as_its_base() -> None:
    class Mine(errors.Denied):
        code = "mine"

    assert to_error_result(Mine("no")).code == "mine"


def test_a_contradictory_result_is_rejected_at_its_creation() -> None:
    with pytest.raises(ValueError, match="contradict"):
        ToolResult(success=True, is_error=True)
    assert ToolResult().success
    assert ToolResult(is_error=True).success is False


# The official client


@EVERY_VERSION
async def test_the_official_client_of_every_version_receives_content_failures_and_malformed_blocks(
    version: str,
) -> None:
    registry = build_registry(
        make_constant_tool([block for block, *_ in KINDS]),
        make_entry(lambda data: ToolResult(content=[block for block, _ in ODD.values()]), "odd"),
        make_entry(lambda data: to_error_result(ToolError("no such city", code="unknown_city")), "failing"),
    )
    async with connect_with_version(registry, version) as client:
        assert len((await call(client))["content"]) == len(KINDS)
        assert len((await call(client, "odd"))["content"]) == len(ODD)
        failed = await call(client, "failing")
    assert (failed["isError"], get_text(failed)) == (True, "no such city")
    assert list_codes(failed) == ("unknown_city" if version >= "2025-06-18" else None)
