"""Results of Amplifier tools in every form of the contracts, converted to the bridge's own result, and for hooks."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import date, time
from typing import Any

import orjson

from mcp_bridge._contracts.content import Content, Image, Text
from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._protocol.wire import values
from mcp_bridge._protocol.wire.content import render_block
from mcp_bridge._protocol.wire.content_reader import from_block
from mcp_bridge._protocol.wire.protocol_versions import STATELESS

# Deeper data is truncated, for example data that contains itself.
MAX_DEPTH = 100
_FIRST_FORM = frozenset({"success", "output", "error", "content"})
_SECOND_FORM = frozenset({"tool_call_id", "output", "is_error"})
_EITHER_FORM = _FIRST_FORM | _SECOND_FORM
_MODEL_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The types of images that the APIs of models accept in common."""
_UNREADABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def encode_json(value: Any) -> bytes:
    """Return a message or a part of it as JSON. What JSON cannot represent becomes text."""
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        # The value has an integer of more than 64 bits, or a lone surrogate.
        return json.dumps(value, default=str).encode()


def to_result(given: Any, call_id: str = "") -> Any:
    """Convert a result of either form to a `ToolResult`; return anything else (text, data, None) unchanged.

    A failed result keeps its output. An empty `tool_call_id` becomes `call_id`.
    """
    if isinstance(given, ToolResult):
        return given if given.tool_call_id else replace(given, tool_call_id=call_id)
    fields = _read_fields(given)
    if fields is None:
        return given
    is_failed = not fields.get("success", True) or bool(fields.get("is_error"))
    blocks = fields.get("content")
    return ToolResult(
        success=not is_failed,
        output=fields.get("output"),
        error=_read_error(fields) if is_failed else None,
        tool_call_id=str(fields.get("tool_call_id") or call_id),
        content=[to_content(block) for block in _as_blocks(blocks)] if blocks else None,
    )


def is_second_form(given: Any) -> bool:
    """Whether a result has the form of the contracts that carries the id of the call."""
    fields = _read_fields(given)
    if fields is None:
        return False
    # A model has the fields of both forms, so check which ones its author has set.
    given = getattr(given, "model_fields_set", ())
    return "success" not in fields or "tool_call_id" in given or bool(fields.get("tool_call_id"))


def to_hook_data(result: ToolResult) -> dict[str, Any]:
    """Convert a result to the data that hooks receive: the first form as JSON, with content blocks as in MCP."""
    error = None
    if result.is_error:
        error = dict(result.error) if isinstance(result.error, Mapping) else {"message": result.error_text}
    data: dict[str, Any] = {"success": bool(result.success), "output": result.output, "error": error}
    if result.content is not None:
        data["content"] = [render_block(item, STATELESS) for item in _as_blocks(result.content)]
    return data


def from_hook_data(changed: Any, before: ToolResult, seen: Mapping[str, Any]) -> ToolResult:
    """Apply the change of a hook to the result that it has `seen`. The hook returns a whole result or only its output.

    Content is dropped when the output or the error changes: it may repeat what the hook has redacted. Raises
    Unreadable for data that cannot be sent to a client.
    """
    if hasattr(changed, "model_dump"):
        changed = changed.model_dump()
    if isinstance(changed, str) and before.is_error:
        return replace(before, output=None, error=changed, content=None)
    fields = _read_fields(changed)
    if fields is None:
        return values.to_result(replace(before, output=changed, content=None))
    result: ToolResult = to_result(changed)
    content = fields.get("content")
    if content is not None and content != seen.get("content"):
        blocks: Sequence[Content] | None = _read_changed_blocks(content, before, seen)
    else:
        is_unchanged = result.output == before.output and (content is not None or "content" not in fields)
        # The content may repeat the error.
        same_error = not before.is_error or result.error_text == before.error_text
        blocks = before.content if is_unchanged and same_error else None
    code = before.code if result.is_error else None
    return values.to_result(
        replace(result, content=blocks, code=code, tool_call_id=before.tool_call_id, meta=before.meta)
    )


def to_content(given: Any) -> Content:
    """Read a content block of third-party code, in the form of MCP or Amplifier; anything else becomes text."""
    if isinstance(given, Content):
        return given
    fields = _as_mapping(given)
    block = from_block(fields)
    if isinstance(block, Content):
        return block
    source = _as_mapping(fields.get("source"))
    if fields.get("type") != "image" or "data" not in source:
        return Text(render_output(given))
    try:
        data = base64.b64decode(str(source["data"]), validate=True)
    except (binascii.Error, ValueError):
        return Text("[unreadable image]")
    return Image(data, str(source.get("media_type") or "image/png"))


def list_images(content: Any) -> list[dict[str, Any]]:
    """Return the images of a result that models accept, as blocks of Amplifier's messages."""
    return [
        {
            "type": "image",
            "source": {
                "type": "base64",
                "media_type": block.mime_type,
                "data": base64.b64encode(block.data).decode(),
            },
        }
        for block in _as_blocks(content)
        if isinstance(block, Image) and block.mime_type in _MODEL_IMAGES
    ]


def render_output(output: Any) -> str:
    """Return an output as text for a model. Never raises.

    Text and numbers lose control characters and lone surrogates; everything else becomes JSON, where NaN and infinity
    are null, bytes are base64, dates ISO 8601, sets lists, and unknown objects their `str`.
    """
    if isinstance(output, str | int | float):
        return _UNREADABLE.sub("", str(output))
    try:
        return json.dumps(output, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        plain = _to_json_data(output, 0)
    return _UNREADABLE.sub("", plain) if isinstance(plain, str) else json.dumps(plain)


def render_content(content: Any) -> str:
    """Return content as text for a model: texts as they are, other blocks by their kind."""
    blocks = [content] if isinstance(content, str | bytes | Content) else content
    texts = [block if isinstance(block, str) else getattr(block, "text", None) for block in blocks]
    return "\n".join(text or f"[{type(block).__name__}]" for text, block in zip(texts, blocks, strict=True))


def _read_fields(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of an object or mapping that has the shape of a result, else None."""
    if isinstance(value, Mapping):
        keys = set(value)
        first = isinstance(value.get("success"), bool) and keys <= _EITHER_FORM
        second = isinstance(value.get("is_error"), bool) and keys <= _SECOND_FORM | {"content"}
        return value if (first or second) and len(keys) > 1 else None
    if not hasattr(value, "output") or not (hasattr(value, "success") or hasattr(value, "is_error")):
        return None
    return {name: getattr(value, name) for name in _EITHER_FORM if hasattr(value, name)}


def _read_error(fields: Mapping[str, Any]) -> Any:
    error = fields.get("error")
    if isinstance(error, Mapping):
        return {**error, "message": str(error.get("message") or "The tool failed and did not say why.")}
    if error:
        return str(error)
    output = fields.get("output")
    return output if isinstance(output, str) else None


def _read_changed_blocks(content: Any, before: ToolResult, hook_data: Mapping[str, Any]) -> list[Content]:
    """Blocks that the hook left unchanged are the tool's own, which can hold more than their JSON shows."""
    blocks = list(_as_blocks(before.content))
    shown_blocks = hook_data.get("content") or ()
    return [
        blocks[index] if index < len(blocks) and block == shown_blocks[index] else to_content(block)
        for index, block in enumerate(_as_blocks(content))
    ]


def _as_blocks(content: Any) -> Iterable[Any]:
    """Tools and hooks may give one block instead of a list."""
    if content is None:
        return ()
    return [content] if isinstance(content, str | bytes | Mapping | Content) else content


def _as_mapping(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    return vars(value) if hasattr(value, "__dict__") else {}


def _to_json_data(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth > MAX_DEPTH:
        return "..."
    try:
        return _convert_object(value, depth + 1)
    except Exception:
        # `__str__` and `model_dump` are third-party code.
        return f"<{type(value).__name__}>"


def _convert_object(value: Any, depth: int) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, date | time):
        return value.isoformat()
    if callable(dump := getattr(type(value), "model_dump", None)):
        value = dump(value)
    if isinstance(value, Mapping):
        return {str(key): _to_json_data(item, depth) for key, item in value.items()}
    if isinstance(value, list | tuple | AbstractSet):
        return [_to_json_data(item, depth) for item in value]
    return str(value)
