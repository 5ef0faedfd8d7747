"""Turns the return values of handlers into ToolResults with JSON-ready output.

The tool has run when its value is converted, so a value is rejected only if it cannot be sent at all. Most values
consist of JSON types. `_encode_plain` serialises and checks these in one pass, and the result keeps the text for the
response. `_Conversion` converts all other values.
"""

from __future__ import annotations

import base64
import dataclasses
import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any

import orjson

from mcp_bridge._contracts.tool import EncodedOutput, ToolResult
from mcp_bridge._contracts.tool_use_results import Result
from mcp_bridge._runtime.exact_json import LARGEST_INTEGER, dump_json

if TYPE_CHECKING:
    from mcp_bridge._contracts.content import Content

logger = logging.getLogger("mcp_bridge.wire")

MAX_DEPTH = 100
"""The maximum number of levels of a value. Deeper values, and those that contain themselves, cannot be read."""
MAX_ITEMS = 1_000_000
"""The maximum number of items of an iterator. An endless one would exhaust the memory."""
_PLAIN_ONLY = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
"""Options with which orjson rejects dataclasses, dates and subclasses of JSON types."""
_OPTIONAL_TEXT = (str, type(None))
_PLAIN_TYPES = frozenset({dict, list, tuple, int, float, bool})
_LOST_NUMBER = "NaN and infinities are null here, because JSON has no such numbers."
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
_RIFF_TYPES = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}


class Unreadable(ValueError):
    """A value cannot be sent to a client. Clients may see the text, unlike the texts of other ValueErrors."""


def to_result(value: Any) -> ToolResult:
    """Turn a handler's return value into a ToolResult.

    Text, numbers, dicts, lists, dataclasses and pydantic models become `output`, bytes and content blocks `content`. A
    ToolResult gets a JSON-ready output, and a tool_use Result is converted. Raises Unreadable for an unreadable value
    or one that contains itself.
    """
    if isinstance(value, str):
        return ToolResult(success=True, output=_replace_surrogates(value))
    # This is the usual case, so it is checked before the import below.
    if type(value) in _PLAIN_TYPES and (encoding := _encode_plain(value)) is not None:
        return ToolResult(success=True, output=value, encoded=encoding)
    if isinstance(value, ToolResult):
        return _normalize_result(value)
    if isinstance(value, Result):
        return _from_result(value)
    # Only calls need this module, so a start does not import it.
    from mcp_bridge._contracts.content import Content, is_sdk_content

    if is_sdk_content(type(value)):
        return _read_sdk_value(value)
    if isinstance(value, Content | bytes | bytearray):
        return ToolResult(success=True, content=(to_block(value),))
    if isinstance(value, list | tuple):
        for item in value:
            if isinstance(item, Content | bytes | bytearray) or is_sdk_content(type(item)):
                return ToolResult(success=True, content=tuple(map(to_block, value)))
    # orjson would write the value of an enum, but the enum itself would stay in the output.
    output = value.value if isinstance(value, Enum) else value
    if (encoding := _encode_plain(output)) is not None:
        return ToolResult(success=True, output=output, encoded=encoding)
    output, content = _convert_output(output)
    return ToolResult(success=True, output=output, content=content)


def _convert_output(value: Any) -> tuple[Any, tuple[Content, ...] | None]:
    """Return an output as JSON types. If a number was lost, also return content with an explanation for the model."""
    conversion = _Conversion(is_strict=True)
    output = conversion.run(value)
    if not conversion.has_lost_number:
        return output, None
    from mcp_bridge._contracts.content import Text

    return output, (Text(to_text(output)), Text(_LOST_NUMBER))


def _read_sdk_value(value: Any) -> ToolResult:
    """Return a content block or CallToolResult of the MCP SDK as a result."""
    data = _dump_sdk_value(value)
    # Only blocks have a type.
    if "type" in data:
        return ToolResult(success=True, content=(to_block(value),))
    from mcp_bridge._contracts.content import Text

    content = tuple(map(to_block, value.content))
    output, meta = data.get("structuredContent"), data.get("_meta")
    if not data.get("isError", False):
        return ToolResult(success=True, output=output, content=content, meta=meta)
    error = "\n".join(block.text for block in content if isinstance(block, Text))
    return ToolResult(success=False, output=output, error=error, content=content, code="tool_error", meta=meta)


def _dump_sdk_value(value: Any) -> dict[str, Any]:
    """Return the JSON of a model of the MCP SDK, or of an object with such a model (FastMCP's Image, Audio or File)."""
    for name in ("to_image_content", "to_audio_content", "to_resource_content"):
        convert = getattr(value, name, None)
        if callable(convert):
            value = convert()
            break
    data: dict[str, Any] = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return data


def _normalize_result(value: ToolResult) -> ToolResult:
    """Return a handler's own result with values that can be sent: a plain output, and an error and a code as text.

    An error that is a mapping remains one.
    """
    if not isinstance(value.error, _OPTIONAL_TEXT) or not isinstance(value.code, _OPTIONAL_TEXT):
        error = to_plain_mapping(value.error) if isinstance(value.error, Mapping) else _to_optional_text(value.error)
        code = _to_optional_text(value.code)
        return dataclasses.replace(value, output=to_plain(value.output), error=error, code=code, encoded=None)
    if value.output is None and value.encoded is None:
        return value
    encoding = _encode_plain(value.output)
    if encoding is not None:
        if value.encoded is None or value.encoded == encoding:
            return value
        # The encoding belongs to another output.
        return dataclasses.replace(value, encoded=encoding)
    if not value.success:
        # A strict conversion may raise, and its error would replace that of the tool.
        return dataclasses.replace(value, output=to_plain(value.output), encoded=None)
    output, note = _convert_output(value.output)
    content = note if value.content is None else value.content
    return dataclasses.replace(value, output=output, content=content, encoded=None)


def get_output_text(result: ToolResult) -> str:
    """Return a result's output as text, without serialising it again."""
    encoding = result.encoded
    if encoding is not None and encoding.output is result.output:
        return encoding.text
    return to_text(result.output)


def to_text(output: Any) -> str:
    """Return an output as text for the model: text unchanged, everything else as compact JSON."""
    return output if isinstance(output, str) else dump_json(output).decode()


def make_text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _to_optional_text(value: Any) -> str | None:
    return None if value is None else to_plain_text(value)


def sanitize_text(text: Any) -> str:
    """Return text of a third party without lone surrogates, and an empty text for any other value."""
    return str(to_plain(text)) if isinstance(text, str) else ""


def to_plain_text(value: Any) -> str:
    """Return text unchanged, and any other value as compact JSON. Raises Unreadable as `to_plain` does."""
    return to_text(to_plain(value))


def to_plain(value: Any) -> Any:
    """Convert a value to JSON types: str, int, float, bool, None, list, and dict with text keys.

    NaN and infinities become None, lone surrogates U+FFFD, bytes Base64, and durations ISO 8601. Unknown objects become
    text, and so do integers beyond the range of clients. Raises Unreadable for more than MAX_DEPTH levels, for an
    iterator of more than MAX_ITEMS items, and for an object that raises when it is read.
    """
    # This is the usual case, and needs no conversion.
    if type(value) is str:
        return _replace_surrogates(value)
    return _Conversion(is_strict=False).run(value)


def to_data(value: Any) -> Any:
    """Convert a handler's return value, as `to_plain` does, but do not replace data by text.

    Also raises Unreadable for an object without data, whose text is only its `repr`, and for an integer beyond the
    range of clients.
    """
    return _Conversion(is_strict=True).run(value)


def to_plain_mapping(value: Any) -> dict[str, Any]:
    """Convert a third-party mapping to JSON types. Return `{}` for anything else. An unreadable mapping is logged."""
    mapping: dict[str, Any] = {}
    if isinstance(value, Mapping):
        try:
            mapping = to_plain(value)
        except ValueError as error:
            logger.warning("a mapping is left out: %s", error)
    return mapping


def _encode_plain(value: Any) -> EncodedOutput | None:
    """Serialise a value of JSON types in one pass. Return None if it has other types or may have a NaN or a UUID."""
    try:
        data = orjson.dumps(value, option=_PLAIN_ONLY)
    except TypeError:
        # The value may have integers of more than 64 bits.
        try:
            data = dump_json(value, _PLAIN_ONLY)
        except (TypeError, RecursionError):
            return None
    # orjson also writes NaN, as null, and UUIDs, as text. `_Conversion` finds out whether the value has any of them.
    if b"null" in data or _UUID.search(data) is not None:
        return None
    return EncodedOutput(value, value if isinstance(value, str) else data.decode(), len(data))


def _replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode."""
    # Python stores this property, so the check does not read the text.
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return re.sub("[\ud800-\udfff]", "\ufffd", text)
    return text


def check_item_count(items: list[Any]) -> list[Any]:
    """Return the items of an iterator. Raises Unreadable for more than MAX_ITEMS."""
    if len(items) > MAX_ITEMS:
        raise Unreadable(f"the iterator yields more than {MAX_ITEMS} items")
    return items


class _Conversion:
    """Converts one value to JSON types. `to_plain` describes the rules, and `to_data` those of `is_strict`.

    Attributes:
        has_lost_number: Whether a NaN or an infinity has become None.
    """

    def __init__(self, *, is_strict: bool) -> None:
        self._is_strict = is_strict
        self.has_lost_number = False

    def run(self, value: Any) -> Any:
        """Return the converted value. Raises Unreadable."""
        try:
            return self.convert(value, 0)
        except Unreadable:
            raise
        # A third-party __str__, __iter__ or model_dump can raise anything. Nothing awaits here, so no exception is a
        # cancellation that would have to pass.
        except BaseException as error:
            value_type = type(value).__name__
            raise Unreadable(
                f"the value cannot be read: {type(error).__name__} in a value of type {value_type}"
            ) from error

    def convert(self, value: Any, depth: int) -> Any:
        """Convert a value at this depth."""
        if depth > MAX_DEPTH:
            raise Unreadable(f"the value contains itself or is nested deeper than {MAX_DEPTH} levels")
        if value is None or value is True or value is False:
            return value
        for types, convert in _CONVERSIONS:
            if isinstance(value, types):
                return convert(self, value, depth)
        return self._convert_object(value, depth)

    def convert_integer(self, value: int, _: int) -> int | str:
        number = int(value)
        if abs(number) <= LARGEST_INTEGER:
            return number
        if self._is_strict:
            raise Unreadable("an integer has more than 308 digits, which clients cannot read. Return it as text")
        return str(number)

    def convert_float(self, value: float, _: int) -> float | None:
        if math.isfinite(value):
            return float(value)
        self.has_lost_number = True
        return None

    def convert_mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        converted: dict[str, Any] = {}
        for key, item in value.items():
            if isinstance(key, str) and not isinstance(key, Enum):
                # A subclass may override `__str__`, so this calls the method of str.
                name = _replace_surrogates(str.__str__(key))
            else:
                name = to_text(self.convert(key, depth + 1))
            converted[name] = self.convert(item, depth + 1)
        return converted

    def convert_items(self, value: Iterable[Any], depth: int) -> list[Any]:
        return [self.convert(item, depth + 1) for item in value]

    def _convert_object(self, value: Any, depth: int) -> Any:
        """Convert an object to its data, or to its text if it has none."""
        from mcp_bridge._protocol.wire.third_party_values import NO_DATA, unfold

        data = unfold(value)
        if data is value:
            # The value is an iterator or a collection.
            items: Iterable[Any] = check_item_count(list(islice(value, MAX_ITEMS + 1)))
            return self.convert_items(items, depth)
        if data is not NO_DATA:
            return self.convert(data, depth)
        if self._is_strict and getattr(type(value), "__str__", None) is object.__str__:
            raise Unreadable(
                f"a value of type {type(value).__name__} has no data that can be sent. Return text, numbers, lists, "
                "dicts, dataclasses or pydantic models"
            )
        return _replace_surrogates(str(value))


def _format_time(value: datetime | date | time) -> str | None:
    """Return a date or time in ISO 8601, or None for pandas' NaT, which does not equal itself."""
    return value.isoformat() if value == value else None  # noqa: PLR0124


def _format_duration(value: timedelta) -> str:
    """Return a duration in ISO 8601, such as PT1H5M."""
    sign = "-" if value < timedelta() else ""
    value = abs(value)
    minutes, seconds = divmod(value.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{value.microseconds:06}".rstrip("0") if value.microseconds else ""
    clock = ""
    if hours:
        clock += f"{hours}H"
    if minutes:
        clock += f"{minutes}M"
    if seconds or fraction:
        clock += f"{seconds}{fraction}S"
    if not value.days:
        return f"{sign}PT{clock or '0S'}"
    return f"{sign}P{value.days}DT{clock}" if clock else f"{sign}P{value.days}D"


_CONVERSIONS: tuple[tuple[Any, Callable[[_Conversion, Any, int], Any]], ...] = (
    (Enum, lambda conversion, value, depth: conversion.convert(value.value, depth + 1)),
    (str, lambda _, value, __: _replace_surrogates(str.__str__(value))),
    (int, _Conversion.convert_integer),
    (float, _Conversion.convert_float),
    (complex, lambda _, value, __: str(complex(value))),
    (Mapping, _Conversion.convert_mapping),
    ((bytes, bytearray, memoryview), lambda _, value, __: base64.b64encode(bytes(value)).decode()),
    ((datetime, date, time), lambda _, value, __: _format_time(value)),
    (timedelta, lambda _, value, __: _format_duration(value)),
    (re.Pattern, lambda conversion, value, depth: conversion.convert(value.pattern, depth)),
    ((Sequence, AbstractSet), _Conversion.convert_items),
)
"""The conversions, of which the first with a matching type applies.

Enums come first, because they can also be a str or an int. Text and bytes come before sequences, because they are such.
"""


def to_block(item: Any) -> Content:
    """Return content unchanged, bytes as an image, audio or resource, and anything else as text.

    Raises Unreadable as `to_data` does.
    """
    from mcp_bridge._contracts.content import Content, Text, is_sdk_content

    # isinstance would read the attribute `__class__` of the item, whose code is not to be trusted.
    item_type = type(item)
    if is_sdk_content(item_type):
        from mcp_bridge._protocol.wire.content_reader import from_block

        item = from_block(_dump_sdk_value(item))
        item_type = type(item)
    if issubclass(item_type, Content):
        block: Content = item
        return block
    if issubclass(item_type, bytes | bytearray):
        return from_bytes(bytes(item))
    return Text(to_text(to_data(item)))


def detect_mime_type(data: bytes) -> str:
    """Return the media type of an image, audio or PDF by its signature, or else application/octet-stream."""
    for signature, mime_type in _SIGNATURES:
        if data.startswith(signature):
            return mime_type
    if data[:4] == b"RIFF" and data[8:12] in _RIFF_TYPES:
        return _RIFF_TYPES[data[8:12]]
    return "application/octet-stream"


def from_bytes(data: bytes, mime_type: str | None = None, uri: str | None = None) -> Content:
    """Return bytes as an image, audio or embedded resource. Without a media type, their signature decides."""
    from mcp_bridge._contracts.content import Audio, EmbeddedResource, Image

    media_type = (mime_type or "").lower() or detect_mime_type(data)
    if media_type.startswith("image/"):
        return Image(data, media_type)
    if media_type.startswith("audio/"):
        return Audio(data, media_type)
    # MCP requires a URI for each resource. Bytes of a handler have none, so this one only states their type.
    return EmbeddedResource(uri or f"data:{media_type}", data, media_type)


def _from_result(result: Result) -> ToolResult:
    """Convert a Result of the tool_use API. The text of a failure lists its errors."""
    output = to_plain(result.data)
    meta = to_plain(result.metadata) or None
    if result.ok:
        return ToolResult(success=True, output=output, meta=meta)
    lines = [result.message] if result.message else []
    lines += [f"- {error}" for error in result.errors if error != result.message]
    status = result.status.value
    return ToolResult(success=False, output=output, error="\n".join(lines) or status, code=status, meta=meta)
