"""What Xaibo's providers answer and raise, as the bridge's own result and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mcp_bridge.contracts import errors
from mcp_bridge.contracts.content import Content, Text
from mcp_bridge.contracts.tool import ToolResult

if TYPE_CHECKING:
    from mcp_bridge.xaibo import models

FAILED = "Tool failed"
"""What a failure says that says nothing."""
REMARK = "mcp-bridge/error"
"""Where a success keeps the error that came with it, in its `meta`."""
_FIELDS = frozenset({"success", "result", "error"})
_RAISED = {
    "ToolNotFoundError": (errors.ToolError.code, "Tool '{}' was not found by its provider."),
    "ToolParameterError": (errors.InvalidArguments.code, "Tool '{}' does not take these parameters."),
    "ToolExecutionError": (errors.ToolError.code, "Tool '{}' failed."),
    "ToolError": (errors.ToolError.code, "Tool '{}' failed."),
}
"""The code and, where the error has no text, the text of each error, by the name of its class."""


def to_result(answer: Any, *, call_id: str = "") -> ToolResult:
    """A provider's answer as the bridge has it. What is no result by its shape is the output of a success.

    The error of a failure is shown verbatim, and what it gives as its result after that.
    """
    if isinstance(answer, ToolResult):
        return answer if answer.tool_call_id else replace(answer, tool_call_id=call_id)
    fields = _fields(answer)
    success, output, error = bool(fields["success"]), fields["result"], fields["error"]
    content = _content(output)
    return ToolResult(
        success=success,
        output=None if content else output,
        error=None if success else _text(error) or FAILED,
        tool_call_id=call_id,
        content=content,
        meta={REMARK: _text(error)} if success and error else None,
    )


def from_result(result: ToolResult) -> models.ToolResult:
    """A result as Xaibo has it: success, the output or the content as the result, the error as text."""
    from mcp_bridge.xaibo import models

    if result.is_error:
        return models.ToolResult(success=False, result=_output(result), error=result.error_text or FAILED)
    return models.ToolResult(success=True, result=_output(result), error=(result.meta or {}).get(REMARK))


def raised(error: BaseException, name: str, listed: bool) -> ToolResult | None:
    """One of Xaibo's errors, ours or of another package, as a failure with its own text; None for any other.

    `name` is the tool's, `listed` whether its provider lists it: one that is not listed does not exist.
    """
    if isinstance(error, errors.CallError):  # which the pipeline knows
        return None
    kind = next((each.__name__ for each in type(error).__mro__ if each.__name__ in _RAISED), None)
    if kind is None:
        return None
    code, otherwise = _RAISED[kind]
    if kind == "ToolNotFoundError" and not listed:
        code = errors.ToolNotFound.code
    return ToolResult(success=False, error=_text(error) or otherwise.format(name), code=code)


def _fields(answer: Any) -> Mapping[str, Any]:
    """The fields of what is a result by its shape, else of a success that has brought it."""
    if isinstance(answer, Mapping):
        if isinstance(answer.get("success"), bool) and answer.keys() <= _FIELDS:
            return {name: answer.get(name) for name in _FIELDS}
    elif isinstance(getattr(answer, "success", None), bool) and hasattr(answer, "result"):
        return {name: getattr(answer, name, None) for name in _FIELDS}
    return {"success": True, "result": answer, "error": None}


def _text(error: Any) -> str:
    """An error as text: itself, its `message`, or what it says of itself."""
    if error is None or isinstance(error, str):
        return error or ""
    if isinstance(error, Mapping) and isinstance(message := error.get("message"), str):
        return message
    try:
        return str(error)
    except Exception:  # a stranger's __str__
        return type(error).__name__


def _content(output: Any) -> tuple[Content, ...] | None:
    """What is content already, which output cannot carry."""
    if isinstance(output, Content):
        return (output,)
    if isinstance(output, list | tuple) and output and all(isinstance(item, Content) for item in output):
        return tuple(output)
    return None


def _output(result: ToolResult) -> Any:
    """The output, else the content: text where that is all there is."""
    if result.output is not None or result.content is None:
        return result.output
    blocks = list(result.content)
    if all(isinstance(block, Text) for block in blocks):
        return "\n".join(block.text for block in blocks if isinstance(block, Text)) if blocks else None
    return blocks
