"""Converts the results of Amplifier tools to the bridge's own `ToolResult`, to the data of hooks, and to text.

Tools return results in one of two forms, because the contracts of Amplifier differ: `success`, `output` and `error`, or
`tool_call_id`, `output` and `is_error`. Both are accepted as mappings and as objects of any class.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from mcp_bridge._contracts.content import Content, Image, Text
from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._protocol.wire import values
from mcp_bridge._protocol.wire.content import render_block
from mcp_bridge._protocol.wire.content_reader import from_block
from mcp_bridge._protocol.wire.protocol_versions import STATELESS

_FIRST_FORM = frozenset({"success", "output", "error", "content"})
_SECOND_FORM = frozenset({"tool_call_id", "output", "is_error"})
_EITHER_FORM = _FIRST_FORM | _SECOND_FORM
_MODEL_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The types of images in the common APIs of models."""
# Control characters except tab, line feed and carriage return, and surrogates.
_UNREADABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_BYTES_PER_TOKEN = 4
"""An estimate for English text and code. Bytes are counted, because other scripts cost more tokens per character."""


def encode_json(value: Any) -> bytes:
    """Return a message or a part of it as JSON. What JSON cannot represent becomes text."""
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        # The value has an integer of more than 64 bits, or a lone surrogate.
        return json.dumps(value, default=str).encode()


def estimate_json_tokens(value: Any) -> int:
    """Return about how many tokens a value takes in a request to a model, as JSON."""
    return len(encode_json(value)) // _BYTES_PER_TOKEN


def to_result(value: Any, call_id: str = "") -> Any:
    """Convert a result of either form to a `ToolResult`; return anything else (text, data, None) unchanged.

    A failed result keeps its output. An empty `tool_call_id` becomes `call_id`.
    """
    if isinstance(value, ToolResult):
        return value if value.tool_call_id else replace(value, tool_call_id=call_id)
    fields = _read_fields(value)
    if fields is None:
        return value
    content = None
    if fields.get("content"):
        content = [to_content(block) for block in _as_blocks(fields["content"])]
    output = fields.get("output")
    result_id = str(fields.get("tool_call_id") or call_id)
    if not fields.get("success", True) or fields.get("is_error"):
        error = _read_error(fields)
        return ToolResult(success=False, output=output, error=error, tool_call_id=result_id, content=content)
    return ToolResult(output=output, tool_call_id=result_id, content=content)


def is_second_form(value: Any) -> bool:
    """Return whether a result has the second form of the contracts, with the id of the call."""
    fields = _read_fields(value)
    if fields is None:
        return False
    # A model has the fields of both forms, so check which ones its author has set.
    field_names = getattr(value, "model_fields_set", ())
    return "success" not in fields or "tool_call_id" in field_names or bool(fields.get("tool_call_id"))


def to_hook_data(result: ToolResult) -> dict[str, Any]:
    """Convert a result to data for hooks, in the first form. Content blocks have their form in MCP."""
    error = None
    if result.is_error:
        error = dict(result.error) if isinstance(result.error, Mapping) else {"message": result.error_text}
    data: dict[str, Any] = {"success": bool(result.success), "output": result.output, "error": error}
    if result.content is not None:
        data["content"] = [render_block(item, STATELESS) for item in _as_blocks(result.content)]
    return data


def from_hook_data(new_data: Any, before: ToolResult, data: Mapping[str, Any]) -> ToolResult:
    """Apply a hook's change to the result `before`, which the hook received as `data`.

    `new_data` is the return value of the hook: a whole result, or only an output. If the hook changes the output or the
    error but not the content, the content is dropped, because it may repeat a redacted text. Raises Unreadable for data
    without a form in JSON.
    """
    if hasattr(new_data, "model_dump"):
        new_data = new_data.model_dump()
    # A text in place of a failed result is its new error.
    if isinstance(new_data, str) and before.is_error:
        return replace(before, output=None, error=new_data, content=None)
    fields = _read_fields(new_data)
    if fields is None:
        return values.to_result(replace(before, output=new_data, content=None))
    result: ToolResult = to_result(new_data)
    content = fields.get("content")
    is_removed = "content" in fields and content is None
    is_same_output = result.output == before.output
    is_same_error = not before.is_error or result.error_text == before.error_text
    blocks: Sequence[Content] | None = None
    if content is not None and content != data.get("content"):
        blocks = _read_changed_blocks(content, before, data)
    elif not is_removed and is_same_output and is_same_error:
        blocks = before.content
    code = before.code if result.is_error else None
    return values.to_result(
        replace(result, content=blocks, code=code, tool_call_id=before.tool_call_id, meta=before.meta)
    )


def to_content(value: Any) -> Content:
    """Read a content block of third-party code, in the form of MCP or Amplifier; anything else becomes text."""
    if isinstance(value, Content):
        return value
    fields = _as_mapping(value)
    block = from_block(fields)
    if isinstance(block, Content):
        return block
    source = _as_mapping(fields.get("source"))
    if fields.get("type") != "image" or "data" not in source:
        return Text(render_output(value))
    try:
        data = base64.b64decode(str(source["data"]), validate=True)
    except (binascii.Error, ValueError):
        return Text("[unreadable image]")
    return Image(data, str(source.get("media_type") or "image/png"))


def list_images(content: Any) -> list[dict[str, Any]]:
    """Return the images of a result for models, as blocks of Amplifier's messages."""
    images = []
    for block in _as_blocks(content):
        if isinstance(block, Image) and block.mime_type in _MODEL_IMAGES:
            data = base64.b64encode(block.data).decode()
            source = {"type": "base64", "media_type": block.mime_type, "data": data}
            images.append({"type": "image", "source": source})
    return images


def render_output(output: Any) -> str:
    """Return an output as text for a model. Never raises.

    Text and numbers lose control characters and lone surrogates. Everything else becomes JSON as `to_plain` converts
    it, or the name of its type if it cannot be converted.
    """
    if isinstance(output, str | int | float):
        return _UNREADABLE.sub("", str(output))
    try:
        return json.dumps(output, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        try:
            output = values.to_plain(output)
        except values.Unreadable:
            return f"<{type(output).__name__}>"
    return _UNREADABLE.sub("", output) if isinstance(output, str) else json.dumps(output)


def render_content(content: Any) -> str:
    """Return content as text for a model. Blocks without text are named by their type, such as `[Image]`."""
    texts = []
    for block in _as_blocks(content):
        text = block if isinstance(block, str) else getattr(block, "text", None)
        texts.append(text or f"[{type(block).__name__}]")
    return "\n".join(texts)


def _read_fields(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of an object or mapping in the shape of a result, else None.

    A mapping with other keys, or with the flag alone, is the output of a tool.
    """
    if isinstance(value, Mapping):
        keys = set(value)
        has_first_form = isinstance(value.get("success"), bool) and keys <= _EITHER_FORM
        has_second_form = isinstance(value.get("is_error"), bool) and keys <= _SECOND_FORM | {"content"}
        is_result = (has_first_form or has_second_form) and len(keys) > 1
        return value if is_result else None
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


def _read_changed_blocks(content: Any, before: ToolResult, data: Mapping[str, Any]) -> list[Content]:
    """Return the blocks of a hook.

    An unchanged block is replaced by the tool's own object, because this can have more data.
    """
    tool_blocks = list(_as_blocks(before.content))
    shown_blocks = data.get("content") or ()
    blocks = []
    for index, block in enumerate(_as_blocks(content)):
        is_unchanged = index < len(tool_blocks) and block == shown_blocks[index]
        blocks.append(tool_blocks[index] if is_unchanged else to_content(block))
    return blocks


def _as_blocks(content: Any) -> Iterable[Any]:
    """Return content as blocks. Tools and hooks may return a single block instead of a list."""
    if content is None:
        return ()
    return [content] if isinstance(content, str | bytes | Mapping | Content) else content


def _as_mapping(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    return vars(value) if hasattr(value, "__dict__") else {}
