"""What Amplifier tools answer, in either form of the contracts, as the bridge's own result and back."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mcp_bridge.amplifier.serialized import serialized
from mcp_bridge.contracts.content import Content, Image, Text
from mcp_bridge.contracts.tool import ToolResult

_FIRST = frozenset({"success", "output", "error", "content"})
_SECOND = frozenset({"tool_call_id", "output", "is_error"})


def to_result(answer: Any, call_id: str = "") -> Any:
    """An answer as the bridge has it: a `ToolResult` for either form, anything else (text, data, None) as it is.

    A failed result keeps its output. An empty `tool_call_id` is filled in with the call's.
    """
    if isinstance(answer, ToolResult):
        return answer if answer.tool_call_id else replace(answer, tool_call_id=call_id)
    fields = _fields(answer)
    if fields is None:
        return answer
    failed = not fields.get("success", True) or bool(fields.get("is_error"))
    return ToolResult(
        success=not failed,
        output=fields.get("output"),
        error=_error(fields, failed=failed),
        tool_call_id=str(fields.get("tool_call_id") or call_id),
        content=_content(fields.get("content")),
    )


def is_second_form(answer: Any) -> bool:
    """Whether an answer is of the form that carries the call's id."""
    fields = _fields(answer)
    if fields is None:
        return False
    given = getattr(answer, "model_fields_set", ())  # of a model that has both forms, the one that was written
    return "success" not in fields or "tool_call_id" in given or bool(fields.get("tool_call_id"))


def from_result(result: ToolResult) -> dict[str, Any]:
    """A result as hooks see it: JSON of the first form."""
    made: dict[str, Any] = {"success": bool(result.success), "output": result.output, "error": None}
    if result.is_error:
        made["error"] = dict(result.error) if isinstance(result.error, Mapping) else {"message": result.error_text}
    if result.content is not None:
        made["content"] = [_shown(block) for block in result.content]
    return made


def unwrapped(changed: Any, before: ToolResult) -> ToolResult:
    """What a hook has made of a result, which comes back whole or as the output alone; success stays as it was."""
    fields = _fields(changed)
    if fields is None:
        return ToolResult(success=before.success, output=changed, error=before.error, code=before.code)
    made: ToolResult = to_result(changed, before.tool_call_id)
    content = _unwrapped_content(fields, before) if before.content is not None else made.content
    return ToolResult(
        success=made.success,
        output=made.output,
        error=made.error if made.is_error else None,
        tool_call_id=made.tool_call_id,
        content=content,
        code=before.code if made.is_error else None,
        meta=before.meta,
    )


def _fields(answer: Any) -> Mapping[str, Any] | None:
    """The fields of what is a result by its shape: an object of either form, or a mapping of nothing else."""
    if isinstance(answer, Mapping):
        keys = set(answer)
        first = isinstance(answer.get("success"), bool) and keys <= _FIRST | _SECOND
        second = isinstance(answer.get("is_error"), bool) and keys <= _SECOND | {"content"}
        return answer if (first or second) and len(keys) > 1 else None
    if not hasattr(answer, "output") or not (hasattr(answer, "success") or hasattr(answer, "is_error")):
        return None
    names = ("success", "output", "error", "content", "tool_call_id", "is_error")
    return {name: getattr(answer, name) for name in names if hasattr(answer, name)}


def _error(fields: Mapping[str, Any], *, failed: bool) -> Any:
    """What went wrong, for the model; output that says it is not said twice."""
    if not failed:
        return None
    error = fields.get("error")
    if isinstance(error, Mapping):
        return {**error, "message": str(error.get("message") or "The tool failed and did not say why.")}
    if error:
        return str(error)
    output = fields.get("output")
    return output if isinstance(output, str) else None


def _content(blocks: Any) -> list[Content] | None:
    """Content blocks, where there is more than text could say."""
    if not blocks:
        return None
    return [_block(block) for block in _each(blocks)]


def _unwrapped_content(fields: Mapping[str, Any], before: ToolResult) -> Sequence[Content] | None:
    """The blocks that a hook has left as they were are the tool's own; where it speaks of output alone, that is all."""
    own = before.content or ()
    given = fields.get("content")
    if given is None:
        return own if "content" not in fields and fields.get("output") == before.output else None
    shown = [(_shown(block), block) for block in own]
    made = [next((block for seen, block in shown if seen == one), None) or _block(one) for one in _each(given)]
    return made if given or own else None


def _each(blocks: Any) -> Iterable[Any]:
    """Blocks as a list, also where somebody gives only one."""
    return [blocks] if isinstance(blocks, str | Mapping) else blocks


def _shown(block: Content) -> dict[str, Any]:
    """A block as hooks see it."""
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if isinstance(block, Image):
        data = base64.b64encode(block.data).decode()
        return {"type": "image", "source": {"type": "base64", "media_type": block.mime_type, "data": data}}
    return {"type": type(block).__name__.lower()}


def _block(given: Any) -> Content:
    """A block of a stranger; one of a kind that the bridge does not have is told as text."""
    if isinstance(given, Content):
        return given
    block = _as_mapping(given)
    if block.get("type") == "text":
        return Text(str(block.get("text", "")))
    source = _as_mapping(block.get("source"))
    if block.get("type") != "image" or "data" not in source:
        return Text(serialized(given))
    try:
        data = base64.b64decode(str(source["data"]), validate=True)
    except (binascii.Error, ValueError):
        return Text("[an image that cannot be read]")
    return Image(data, str(source.get("media_type") or "image/png"))


def _as_mapping(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    return vars(value) if hasattr(value, "__dict__") else {}
