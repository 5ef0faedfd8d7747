"""Converts the values and errors of Xaibo's providers to `ToolResult`, and a `ToolResult` to a provider's result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mcp_bridge._contracts import errors
from mcp_bridge._contracts.content import Content, InjectedText
from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._protocol.wire.values import to_plain_text

FAILED = "Tool failed"
"""The error of a failure without a text."""
NOTHING = "The provider returned None instead of a ToolResult."
REMARK = "mcp-bridge/error"
"""The key in `_meta` for a text under `error` in a successful result. Some providers put warnings there."""
_FIELDS = frozenset({"success", "result", "error"})
_ERRORS = {
    "ToolNotFoundError": (errors.ToolError.code, "The provider did not find this tool."),
    "ToolParameterError": (errors.InvalidArguments.code, "The tool does not accept these parameters."),
    "ToolExecutionError": (errors.ToolError.code, FAILED),
    "ToolError": (errors.ToolError.code, FAILED),
}
"""The code for each class of errors, and the text if the error has none.

The text does not name the tool, because clients may know the tool by another name.
"""


def to_result(value: Any, *, call_id: str = "") -> ToolResult:
    """Convert the value from a provider. A value without the fields of a result is the output of a success.

    The model gets the error of a failure unchanged, followed by its result. None is a failure, because a method with an
    `if` for each of its tools returns None for any other tool.
    """
    if isinstance(value, ToolResult):
        return value if value.tool_call_id else replace(value, tool_call_id=call_id)
    if value is None:
        return ToolResult(success=False, error=NOTHING, tool_call_id=call_id)
    fields = _read_fields(value)
    success, output, error = bool(fields["success"]), fields["result"], fields["error"]
    content = _find_content(output)
    meta = None
    if success and error:
        meta = {REMARK: _format_error(error)}
    return ToolResult(
        success=success,
        output=None if content else output,
        error=None if success else _format_error(error) or FAILED,
        tool_call_id=call_id,
        content=content,
        meta=meta,
    )


def convert_known_error(error: BaseException) -> ToolResult | None:
    """Convert an error of Xaibo's protocol to a failure with its text; return None for any other error.

    The class may belong to this package, to xaibo, or to any other package, so its name is compared.
    """
    # The pipeline converts these errors itself. Some have the same names.
    if isinstance(error, errors.CallError):
        return None
    for error_class in type(error).__mro__:
        if error_class.__name__ in _ERRORS:
            code, text = _ERRORS[error_class.__name__]
            return ToolResult(success=False, error=_format_error(error) or text, code=code)
    return None


def _read_fields(value: Any) -> Mapping[str, Any]:
    """Return the fields of a result, or those of a success with the value as its result."""
    if isinstance(value, Mapping):
        if isinstance(value.get("success"), bool) and value.keys() <= _FIELDS:
            return {name: value.get(name) for name in _FIELDS}
    elif isinstance(getattr(value, "success", None), bool) and hasattr(value, "result"):
        return {name: getattr(value, name, None) for name in _FIELDS}
    return {"success": True, "result": value, "error": None}


def _format_error(error: Any) -> str:
    """Return an error as text: the text itself, its `message`, or its `str`."""
    if error is None or isinstance(error, str):
        return error or ""
    if isinstance(error, Mapping) and isinstance(error.get("message"), str):
        return str(error["message"])
    try:
        return str(error)
    except Exception:
        # A third-party __str__ may raise anything.
        return type(error).__name__


def _find_content(output: Any) -> tuple[Content, ...] | None:
    if isinstance(output, Content):
        return (output,)
    if isinstance(output, list | tuple) and output and all(isinstance(item, Content) for item in output):
        return tuple(output)
    return None


def to_provider_fields(result: ToolResult) -> dict[str, Any]:
    """Return the fields of a provider's result. The injected texts of hooks for the model are added to it."""
    content: Any = result.content
    blocks = [content] if isinstance(content, str | bytes | Content) else list(content or ())
    texts = [block.text for block in blocks if isinstance(block, InjectedText)]
    if result.is_error:
        return {"success": False, "result": None, "error": "\n\n".join([result.error_text, *texts])}
    value = result.output
    if value is None:
        value = [block for block in blocks if not isinstance(block, InjectedText)] or None
    # Only a text can be followed by further texts.
    if texts:
        if value is not None:
            texts.insert(0, to_plain_text(value))
        value = "\n\n".join(texts)
    return {"success": True, "result": value, "error": None}
