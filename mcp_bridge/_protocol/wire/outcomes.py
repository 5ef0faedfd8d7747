"""The table of error codes and their results for clients. docs/errors.md is generated from it."""

from __future__ import annotations

from typing import Any, NamedTuple

from mcp_bridge._contracts import errors
from mcp_bridge._contracts.jsonrpc import INVALID_PARAMS, MISSING_CAPABILITY
from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._protocol.wire.values import to_plain_text

REQUIRED = "requiredCapabilities"
"""The key in `_meta` of a result for the capabilities that the client would need."""


class ErrorOutcome(NamedTuple):
    """How an error reaches a client.

    Attributes:
        error: The class of the error.
        meaning: The cause, for docs/errors.md.
        advice: The advice to the caller, for docs/errors.md.
        rpc_code: The code of the JSON-RPC error; None for an error that is a result with `isError`.
    """

    error: type[errors.CallError]
    meaning: str
    advice: str
    rpc_code: int | None = None

    @property
    def code(self) -> str:
        """The stable code, in `_meta` of the result or `data` of the error."""
        return str(self.error.code)


TABLE: tuple[ErrorOutcome, ...] = (
    ErrorOutcome(errors.ToolNotFound, "no tool with this name is published", "list the tools again", INVALID_PARAMS),
    ErrorOutcome(
        errors.ResourceNotFound,
        "there is no resource at this URI",
        "list the resources and templates again",
        INVALID_PARAMS,
    ),
    ErrorOutcome(
        errors.PromptNotFound, "no prompt with this name is published", "list the prompts again", INVALID_PARAMS
    ),
    ErrorOutcome(
        errors.InvalidArguments, "the arguments do not match the input schema", "fix the problem in each line and retry"
    ),
    ErrorOutcome(
        errors.InvalidOutput,
        "the tool ran, but its result does not match the output schema, possibly because a policy changed it",
        "use the text, and report the problem to the author of the tool or of the named policy",
    ),
    ErrorOutcome(
        errors.ToolError, "the tool reports what went wrong; its author may use another code", "follow the text"
    ),
    ErrorOutcome(
        errors.ToolFailed,
        "the tool raised an unexpected exception",
        "give the reference to the operator, who finds the traceback in the log",
    ),
    ErrorOutcome(
        errors.ToolTimeout,
        "the tool exceeded its time limit and was stopped, except for a synchronous function, which may still finish",
        "ask for less, or raise the limit",
    ),
    ErrorOutcome(errors.ToolCrashed, "the worker process of the tool ended unexpectedly", "do not retry the same call"),
    ErrorOutcome(errors.ToolUnavailable, "something that the tool depends on does not respond", "retry later"),
    ErrorOutcome(
        errors.DefinitionChanged,
        "the definition of the tool is not the one that the user has accepted",
        "ask the user to review it with `mcp-bridge trust`",
    ),
    ErrorOutcome(
        errors.AuditUnavailable,
        "the audit trail cannot be written, and calls without a record are not allowed",
        "do not retry; the operator finds the reason in the log",
    ),
    ErrorOutcome(errors.Overloaded, "the server is at capacity", "retry later"),
    ErrorOutcome(errors.RateLimited, "the caller made too many calls in too short a time", "wait, then retry"),
    ErrorOutcome(errors.Denied, "a policy denied the call", "do not retry the same call"),
    ErrorOutcome(
        errors.ApprovalDeclined,
        "the user declined the call, or no user has approved it",
        "ask the user how to continue",
    ),
    ErrorOutcome(
        errors.MissingCapability,
        "the tool needs input from the user, and the client cannot be asked",
        "use a client with the named capability, or another tool",
        MISSING_CAPABILITY,
    ),
    ErrorOutcome(errors.InvalidAnswer, "the client's answers to a question were not valid", "ask the user again"),
    ErrorOutcome(errors.QuestionExpired, "a question was not answered in time", "retry the call"),
    ErrorOutcome(errors.MissingScope, "the caller's token lacks a scope", "sign in with the named scope"),
    ErrorOutcome(errors.ResultTooLarge, "the result exceeds the size limit", "ask for a smaller part"),
)


def to_error_result(error: errors.CallError) -> ToolResult:
    """Return an error as a result for the model.

    The result keeps an invalid output, because the tool has run and the model may use its output. If there is content,
    the output is added to it as text, so that it is not structured content, which clients would validate.
    """
    if isinstance(error, errors.InvalidOutput):
        content, output = None, error.output
        if error.content is not None:
            content = _add_output(error.content, error.output)
            output = None
        return ToolResult(
            success=False, output=output, error=error.text, content=content, code=error.code, meta=error.meta
        )
    meta = None
    if isinstance(error, errors.MissingCapability):
        meta = {REQUIRED: error.required}
    return ToolResult(success=False, error=error.text, code=error.code, meta=meta)


def _add_output(content: Any, output: Any) -> list[Any]:
    """Return the blocks of a result, followed by its output as text unless a block already has this text."""
    # Only calls need this module, so a start does not import it.
    from mcp_bridge._contracts.content import Text

    blocks = [*content] if isinstance(content, list | tuple) else [content]
    if output is not None:
        text = to_plain_text(output)
        if not any(isinstance(block, Text) and block.text == text for block in blocks):
            blocks.append(Text(text))
    return blocks
