"""The one table from error code to what a client gets. docs/errors.md is made from it."""

from __future__ import annotations

from dataclasses import dataclass

from mcp_bridge.contracts import errors
from mcp_bridge.contracts.tool import ToolResult

INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
MISSING_CAPABILITY = -32021
"""MissingRequiredClientCapability, which the versions without a handshake have (basic, "Error codes")."""

REQUIRED = "requiredCapabilities"
"""Where a result says which capabilities the client would need."""


@dataclass(frozen=True, slots=True)
class Row:
    """How one error reaches a client: a JSON-RPC error with `rpc_code`, or (None) a result with isError."""

    error: type[errors.CallError]
    rpc_code: int | None
    meaning: str
    advice: str

    @property
    def code(self) -> str:
        """The stable code, in `_meta` of the result or `data` of the error."""
        return str(self.error.code)


TABLE: tuple[Row, ...] = (
    Row(errors.ToolNotFound, INVALID_PARAMS, "no tool of that name is published", "list the tools again"),
    Row(errors.ResourceNotFound, INVALID_PARAMS, "nothing is at that URI", "list the resources and templates again"),
    Row(errors.PromptNotFound, INVALID_PARAMS, "no prompt of that name is published", "list the prompts again"),
    Row(
        errors.InvalidArguments,
        None,
        "the arguments do not fit the input schema",
        "mend each line and call again",
    ),
    Row(
        errors.InvalidOutput,
        None,
        "the tool ran, its answer does not fit its schema",
        "use the text; tell the author",
    ),
    Row(
        errors.ToolError,
        None,
        "the tool says what went wrong; authors may give their own code",
        "read the text",
    ),
    Row(errors.ToolFailed, None, "the tool raised something unexpected", "give the reference to the operator"),
    Row(
        errors.ToolTimeout,
        None,
        "the tool did not answer in time and was stopped",
        "ask for less, or raise the limit",
    ),
    Row(
        errors.ToolCrashed,
        None,
        "the process that the tool ran in has ended",
        "do not repeat the call unchanged",
    ),
    Row(errors.ToolUnavailable, None, "what the tool stands on does not answer", "try again later"),
    Row(errors.Overloaded, None, "there is no room for another call", "try again in a moment"),
    Row(errors.RateLimited, None, "too many calls in too short a time", "wait, then call again"),
    Row(errors.Denied, None, "a policy refuses this call", "do not repeat it unchanged"),
    Row(errors.ApprovalDeclined, None, "a person was asked and said no", "ask the person what they want"),
    Row(
        errors.MissingCapability,
        MISSING_CAPABILITY,
        "the tool has to ask something, and the client cannot be asked",
        "use a client with the capability that is named, or another tool",
    ),
    Row(errors.InvalidAnswer, None, "a question kept being answered with what does not fit", "ask the person again"),
    Row(errors.QuestionExpired, None, "a question was not answered in time", "call again"),
    Row(errors.MissingScope, None, "the caller's token lacks a scope", "sign in with the scope that is named"),
    Row(errors.ResultTooLarge, None, "the answer is larger than the limit", "ask for a smaller part"),
)


def failure(error: errors.CallError) -> ToolResult:
    """An error for the model as a result; the data of an answer that does not fit its schema is kept."""
    output = error.output if isinstance(error, errors.InvalidOutput) else None
    meta = {REQUIRED: error.required} if isinstance(error, errors.MissingCapability) else None
    return ToolResult(success=False, output=output, error=error.text, code=error.code, meta=meta)
