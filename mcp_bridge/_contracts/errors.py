"""The error tree. Errors contain plain data, and `_protocol/wire/outcomes.py` converts those of calls for clients.

BridgeError
├── ConfigError            invalid settings: the place, the problem, and a hint (exit code 2)
├── SourceError            a source that cannot publish its tools; the other sources continue
├── RegistryError
│   └── DuplicateTool      two tools with one name (also a ValueError)
└── CallError              a call that failed, with a stable code and a text for the model
    ├── ToolNotFound       ├── MissingScope       ├── ToolUnavailable
    ├── InvalidArguments   ├── RateLimited        ├── ToolFailed
    ├── InvalidOutput      ├── Overloaded         ├── ResultTooLarge
    ├── Denied             ├── ToolTimeout        ├── ToolError (raised by a tool's author)
    ├── ApprovalDeclined   ├── ResourceNotFound   ├── PromptNotFound
    ├── MissingCapability  ├── InvalidAnswer      ├── QuestionExpired
    ├── ToolCrashed        ├── DefinitionChanged  └── AuditUnavailable
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_bridge._contracts.content import Content


class BridgeError(Exception):
    """The base of all errors that this package raises on purpose.

    >>> isinstance(ToolNotFound("there is no tool 'forecst'"), BridgeError)
    True
    """


class ConfigError(BridgeError):
    """The settings cannot be used.

    >>> print(ConfigError("no such file", path="bridge.yaml", line=3, where="sources[0].path", hint="Check the path"))
    bridge.yaml:3: sources[0].path: no such file. Check the path

    Args:
        problem: The problem.
        path: The settings file.
        line: The line in this file, counted from 1.
        where: The path of the key, such as `sources[0].path`.
        hint: Advice for the user.
    """

    def __init__(
        self,
        problem: str,
        *,
        path: str | None = None,
        line: int | None = None,
        where: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path = path
        self.line = line
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        place = ":".join(str(item) for item in (self.path, self.line) if item is not None)
        text = ": ".join(part for part in (place, self.where, self.problem) if part)
        if self.hint:
            text += f". {self.hint}"
        return text


class SourceError(BridgeError):
    """A source cannot publish its tools. The other sources continue."""


class RegistryError(BridgeError):
    """An entry cannot be registered."""


class DuplicateTool(RegistryError, ValueError):
    """Two entries of one kind have the same name."""


class CallError(BridgeError):
    """A call failed. `message` is for the model. `code` never changes, so that programs can compare it.

    >>> print(CallError("Two problems:", details=["a: missing", "b: too long"]).text)
    Two problems:
    - a: missing
    - b: too long
    """

    code: str = "call_error"

    def __init__(self, message: str, *, details: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.details = tuple(details)

    @property
    def text(self) -> str:
        """The message, followed by one line for each detail."""
        return "\n- ".join((self.message, *self.details))


class ToolNotFound(CallError):
    """No tool of this name is published."""

    code = "tool_not_found"


class ResourceNotFound(CallError):
    """There is no resource at this URI."""

    code = "resource_not_found"


class PromptNotFound(CallError):
    """No prompt of this name is published."""

    code = "prompt_not_found"


class InvalidArguments(CallError):
    """The arguments do not match the input schema. `details` has a line for each problem.

    Args:
        problems: The problems, one for each line.
        tool: The name of the tool, or of another entry.
        kind: The kind of the entry (see `ToolCall`).
        advice: The advice to the model.
    """

    code = "invalid_arguments"

    def __init__(
        self,
        problems: Sequence[str],
        *,
        tool: str = "",
        kind: str = "tool",
        advice: str = "Fix the arguments and retry.",
    ) -> None:
        of_tool = f" for {kind} '{tool}'" if tool else ""
        super().__init__(f"Input validation failed{of_tool}. {advice}", details=problems)


class InvalidOutput(CallError):
    """The tool ran, but its result does not match the output schema.

    `output`, `content` and `meta` are those of the result. `changed_by` names the policy that changed a valid result,
    such as `the hook 'mask'`.
    """

    code = "invalid_output"

    def __init__(
        self,
        problems: Sequence[str],
        *,
        tool: str,
        output: Any,
        content: Sequence[Content] | None = None,
        meta: Mapping[str, Any] | None = None,
        kind: str = "tool",
        changed_by: str = "",
    ) -> None:
        cause = f", but {changed_by} changed its result" if changed_by else ""
        super().__init__(f"Output validation failed for {kind} '{tool}'. The {kind} did run{cause}.", details=problems)
        self.output = output
        self.content = content
        self.meta = meta


class Denied(CallError):
    """A policy denied the call."""

    code = "denied"


class ApprovalDeclined(CallError):
    """The user declined the call, or a policy denied it because no user approved it."""

    code = "approval_declined"


class MissingScope(CallError):
    """The caller's token lacks a required scope of this tool."""

    code = "missing_scope"


class RateLimited(CallError):
    """The caller made too many calls in too short a time."""

    code = "rate_limited"


class Overloaded(CallError):
    """The server is at capacity."""

    code = "overloaded"


class ToolTimeout(CallError):
    """The tool exceeded its time limit. A synchronous function (`is_in_thread`) cannot be stopped."""

    code = "timeout"

    def __init__(self, tool: str, seconds: float, *, kind: str = "tool", is_in_thread: bool = False) -> None:
        end = ". It cannot be stopped, and may still finish." if is_in_thread else " and was stopped."
        super().__init__(f"{kind.capitalize()} '{tool}' did not finish within {seconds:g} seconds{end}")


class ToolCrashed(CallError):
    """The process of the tool has ended unexpectedly. The server starts a new process.

    `how` continues a sentence after the tool, such as "was killed".
    """

    code = "tool_crashed"

    def __init__(self, tool: str, how: str, *, kind: str = "tool") -> None:
        super().__init__(f"{kind.capitalize()} '{tool}' {how}. Nothing else is affected.")
        self.how = how


class ToolUnavailable(CallError):
    """The tool exists, but a server, process or service behind it does not respond."""

    code = "tool_unavailable"


class DefinitionChanged(CallError):
    """The definition of the tool differs from the accepted one (`mcp-bridge trust`)."""

    code = "definition_changed"


class AuditUnavailable(CallError):
    """The audit trail cannot be written, and the settings allow only calls that are recorded."""

    code = "audit_unavailable"


class ToolFailed(CallError):
    """The tool raised an unexpected exception. The log has its traceback under `reference`.

    `shown` is the text of the exception, if the settings allow clients to see it.
    """

    code = "internal_error"

    def __init__(self, tool: str, reference: str, *, shown: str = "", kind: str = "tool") -> None:
        reason = f": {shown}" if shown else ""
        super().__init__(f"{kind.capitalize()} '{tool}' failed with an internal error{reason} (reference {reference}).")
        self.reference = reference


class ResultTooLarge(CallError):
    """The result exceeds the size limit."""

    code = "result_too_large"


class MissingCapability(CallError):
    """The client lacks capabilities. `required` lists them in the form of MCP's `requiredCapabilities`."""

    code = "missing_capability"

    def __init__(self, required: Mapping[str, Any]) -> None:
        names: list[str] = []
        for name, features in required.items():
            names += [f"{name}.{feature}" for feature in features] or [name]
        super().__init__(f"This client cannot be asked: it has not declared the capability {', '.join(names)}.")
        self.required = dict(required)


class InvalidAnswer(CallError):
    """The client's answers to a question were not valid. `details` has a line for each problem."""

    code = "invalid_answer"

    def __init__(
        self, message: str = "The answers to the question were not valid.", *, details: Sequence[str] = ()
    ) -> None:
        super().__init__(message, details=details)


class QuestionExpired(CallError):
    """A question was not answered in time, or its call has ended."""

    code = "question_expired"


class ToolError(CallError):
    """A tool raises this to report a problem to the model. Text and code reach the model unchanged.

    >>> def find_city(name):
    ...     raise ToolError("city: no such place, try the English name", code="unknown_city")
    """

    code = "tool_error"

    def __init__(self, message: str, *, code: str | None = None, details: Sequence[str] = ()) -> None:
        super().__init__(message, details=details)
        if code is not None:
            self.code = code
