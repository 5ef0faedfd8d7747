"""Turns what a handler returns into a ToolResult with JSON-ready output. The tool ran, so most values are accepted."""

from __future__ import annotations

import base64
import dataclasses
import logging
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time
from enum import Enum
from itertools import islice
from types import GeneratorType
from typing import TYPE_CHECKING, Any

import orjson

from mcp_bridge.contracts.tool import EncodedOutput, ToolResult
from mcp_bridge.contracts.tool_use_results import Result
from mcp_bridge.encoding.exact_json import dump_json

if TYPE_CHECKING:
    from mcp_bridge.contracts.content import Content

logger = logging.getLogger("mcp_bridge.wire")

MAX_DEPTH = 100
"""The maximum number of levels of a value. Deeper values, and those that contain themselves, cannot be read."""
MAX_ITEMS = 1_000_000
"""The maximum number of items that are read from a generator; an endless one would exhaust the memory."""
_STRICT = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
_TEXT = (str, type(None))
_PLAIN = frozenset({dict, list, tuple, int, float, bool})
_INT64 = range(-(2**63), 2**64)
_UUID = re.compile(rb'"[0-9a-f]{8}-[0-9a-f]{4}-')
_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"ID3", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"%PDF-", "application/pdf"),
)


class Unreadable(ValueError):
    """A value that cannot be sent to a client. Unlike that of other ValueErrors, its text is safe to show."""


def to_result(value: Any) -> ToolResult:
    """Turn a handler's return value into a ToolResult.

    Text, numbers, dicts, lists, dataclasses and pydantic models become `output`, bytes and content blocks `content`. A
    ToolResult is kept, and a tool_use Result converted. Raises Unreadable for a value that contains itself or cannot be
    read.
    """
    if isinstance(value, str):
        return ToolResult(success=True, output=_replace_surrogates(value))
    if type(value) in _PLAIN and (encoded := _encode_plain(value)) is not None:  # the usual case, found at once
        return ToolResult(success=True, output=value, encoded=encoded)
    if isinstance(value, ToolResult):
        return _normalize_result(value)
    if isinstance(value, Result):
        return _from_result(value)
    from mcp_bridge.contracts.content import Content  # a start does not need it

    if isinstance(value, Content | bytes | bytearray):
        return ToolResult(success=True, content=(as_block(value),))
    if isinstance(value, list | tuple) and any(isinstance(item, Content | bytes | bytearray) for item in value):
        return ToolResult(success=True, content=tuple(as_block(item) for item in value))
    output = value.value if isinstance(value, Enum) else value  # orjson writes enums, but not as their text
    encoded = _encode_plain(output)
    return ToolResult(success=True, output=to_plain(output) if encoded is None else output, encoded=encoded)


def _normalize_result(value: ToolResult) -> ToolResult:
    """Return a handler's own result with an output that is plain, and an error and code that are text."""
    if isinstance(value.error, _TEXT) and isinstance(value.code, _TEXT):
        if value.output is None and value.encoded is None:
            return value
        encoded = _encode_plain(value.output)
        if encoded is None:
            return dataclasses.replace(value, output=to_plain(value.output), encoded=None)
        return value if value.encoded in (None, encoded) else dataclasses.replace(value, encoded=encoded)
    error = to_plain_mapping(value.error) if isinstance(value.error, Mapping) else _as_text(value.error)
    code = _as_text(value.code)
    return dataclasses.replace(value, output=to_plain(value.output), error=error, code=code, encoded=None)


def get_output_text(result: ToolResult) -> str:
    """Return a result's output as text, without serialising it again."""
    encoded = result.encoded
    return encoded.text if encoded is not None and encoded.output is result.output else to_text(result.output)


def to_text(output: Any) -> str:
    """Return an output as text for the model: text unchanged, everything else as compact JSON."""
    return output if isinstance(output, str) else dump_json(output).decode()


def make_text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _as_text(value: Any) -> str | None:
    return None if value is None else as_text(value)


def sanitize_text(text: Any) -> str:
    """Return text from a third party as plain text; empty if it is not text."""
    return str(to_plain(text)) if isinstance(text, str) else ""


def as_text(value: Any) -> str:
    """Return any value as text, else as compact JSON. Raises Unreadable as `to_plain` does."""
    return to_text(to_plain(value))


def to_plain(value: Any) -> Any:
    """Convert a value to JSON types: str, int, float, bool, None, list, and dict with text keys.

    NaN and infinities become None, lone surrogates U+FFFD, bytes base64, and integers beyond 64 bits and unknown
    objects text. Raises Unreadable for more than MAX_DEPTH levels, for a generator of more than MAX_ITEMS items, and
    for an object that raises when it is read.
    """
    if type(value) is str:  # the usual case
        return _replace_surrogates(value)
    try:
        return _convert(value, 0)
    except Unreadable:
        raise
    except (
        BaseException
    ) as error:  # from a third-party __str__, __iter__ or model_dump; no cancellation: nothing awaits
        kind = type(value).__name__
        raise Unreadable(f"the value cannot be read: {type(error).__name__} in a value of type {kind}") from error


def to_plain_mapping(value: Any) -> dict[str, Any]:
    """Convert a third-party mapping to JSON types; empty if it is not a mapping or, which is logged, cannot be read."""
    if value is None:
        return {}
    try:
        converted: dict[str, Any] = to_plain(value) if isinstance(value, Mapping) else {}
    except ValueError as error:
        logger.warning("a mapping is left out: %s", error)
        return {}
    return converted


def _convert(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise Unreadable(f"the value contains itself or is nested deeper than {MAX_DEPTH} levels")
    if value is None or value is True or value is False:
        return value
    for kinds, convert in _CONVERSIONS:
        if isinstance(value, kinds):
            return convert(value, depth)
    return _convert_object(value, depth)


def _encode_plain(value: Any) -> EncodedOutput | None:
    """Serialise a value of JSON types in one pass. None for other types, and if it may contain a NaN or a UUID."""
    try:
        data = dump_json(value, option=_STRICT)
    except (TypeError, RecursionError):
        return None
    if b"null" in data or _UUID.search(data) is not None:
        return None
    return EncodedOutput(value, value if isinstance(value, str) else data.decode(), len(data))


def _replace_surrogates(text: str) -> str:
    if text.isascii():  # known without reading the text
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return re.sub("[\ud800-\udfff]", "\ufffd", text)
    return text


def _convert_integer(value: int, _: int) -> int | str:
    return int(value) if int(value) in _INT64 else str(int(value))


def _convert_float(value: float, _: int) -> float | None:
    return float(value) if math.isfinite(value) else None


def _convert_mapping(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    return {_convert_key(key, depth): _convert(item, depth + 1) for key, item in value.items()}


def _convert_key(key: Any, depth: int) -> str:
    is_text = isinstance(key, str) and not isinstance(key, Enum)
    return _replace_surrogates(str.__str__(key)) if is_text else to_text(_convert(key, depth + 1))


def _convert_items(value: Iterable[Any], depth: int) -> list[Any]:
    return [_convert(item, depth + 1) for item in value]


def _convert_generator(value: Iterable[Any], depth: int) -> list[Any]:
    return _convert_items(check_item_count(list(islice(value, MAX_ITEMS + 1))), depth)


def check_item_count(items: list[Any]) -> list[Any]:
    """Return the items of a generator. Raises Unreadable for more than MAX_ITEMS."""
    if len(items) > MAX_ITEMS:
        raise Unreadable(f"the generator yields more than {MAX_ITEMS} items")
    return items


_CONVERSIONS: tuple[tuple[Any, Any], ...] = (
    (Enum, lambda value, depth: _convert(value.value, depth + 1)),
    (str, lambda value, _: _replace_surrogates(str.__str__(value))),
    (int, _convert_integer),
    (float, _convert_float),
    (Mapping, _convert_mapping),
    ((bytes, bytearray, memoryview), lambda value, _: base64.b64encode(bytes(value)).decode()),
    ((datetime, date, time), lambda value, _: value.isoformat()),
    ((Sequence, AbstractSet), _convert_items),
    (GeneratorType, _convert_generator),
)


def _convert_object(value: Any, depth: int) -> Any:
    """Convert dataclasses and models by their fields, anything else by its text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: _convert(getattr(value, item.name), depth + 1) for item in dataclasses.fields(value)}
    dump = getattr(type(value), "model_dump", None)
    if callable(dump):
        return _convert(dump(value, mode="json", by_alias=True), depth + 1)
    return _replace_surrogates(str(value))


def as_block(item: Any) -> Content:
    """Return content unchanged, bytes by their type, anything else as text. Raises Unreadable as `to_plain` does."""
    from mcp_bridge.contracts.content import Content, Text

    kind = type(item)  # not isinstance, which reads the item's __class__
    if issubclass(kind, Content):
        block: Content = item
        return block
    if issubclass(kind, bytes | bytearray):
        return from_bytes(bytes(item))
    return Text(to_text(to_plain(item)))


def from_bytes(data: bytes) -> Content:
    """Return bytes as an image, audio or embedded resource, depending on their signature."""
    from mcp_bridge.contracts.content import Audio, EmbeddedResource, Image

    kind = next((mime for start, mime in _SIGNATURES if data.startswith(start)), "application/octet-stream")
    if data[:4] == b"RIFF":
        kind = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(data[8:12], kind)
    if kind.startswith("image/"):
        return Image(data, kind)
    if kind.startswith("audio/"):
        return Audio(data, kind)
    return EmbeddedResource(f"data:{kind}", data, kind)


def _from_result(result: Result) -> ToolResult:
    lines = [result.message, *(f"- {error}" for error in result.errors if error != result.message)]
    return ToolResult(
        success=result.ok,
        output=to_plain(result.data),
        error=None if result.ok else "\n".join(line for line in lines if line) or result.status.value,
        code=None if result.ok else result.status.value,
        meta=to_plain(result.metadata) or None,
    )
