"""The error tree. Errors carry plain data; text and wire shapes are made elsewhere.

BridgeError
├── ConfigError            settings that cannot be used: where, what was found, what to do (exit code 2)
├── SourceError            a source that cannot publish: logged, its tools alone are missing
├── RegistryError
│   └── DuplicateTool      two tools of one name (also a ValueError)
└── CallError              a call that did not succeed: a stable code and text for the model
    ├── ToolNotFound       ├── MissingScope       ├── ToolUnavailable
    ├── InvalidArguments   ├── RateLimited        ├── ToolFailed
    ├── InvalidOutput      ├── Overloaded         ├── ResultTooLarge
    ├── Denied             ├── ToolTimeout        ├── ToolError (raised by a tool's author)
    ├── ApprovalDeclined   ├── ResourceNotFound   ├── PromptNotFound
    ├── MissingCapability  ├── InvalidAnswer      ├── QuestionExpired
    └── ToolCrashed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class BridgeError(Exception):
    """Everything that this package raises on purpose."""


class ConfigError(BridgeError):
    """Settings that cannot be used.

    `path` is the file, `line` counts from 1, `where` is the key path such as `sources[0].path`,
    `problem` says what was found and `hint` what to do.
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
        self.problem, self.path, self.line, self.where, self.hint = problem, path, line, where, hint

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.path, self.line) if part is not None)
        text = ": ".join(part for part in (place, self.where, self.problem) if part)
        return f"{text}. {self.hint}" if self.hint else text


class SourceError(BridgeError):
    """A source that cannot publish its tools; the others go on."""


class RegistryError(BridgeError):
    """A registration that cannot stand."""


class DuplicateTool(RegistryError, ValueError):
    """Two tools of one name."""


class CallError(BridgeError):
    """A call that did not succeed, told to the model that made it: `code` is stable, `message` is for reading."""

    code: str = "call_error"

    def __init__(self, message: str, *, details: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.details = tuple(details)

    @property
    def text(self) -> str:
        """The message and its details, a line each."""
        return "\n".join([self.message, *(f"- {line}" for line in self.details)])


class ToolNotFound(CallError):
    """No tool of that name is published."""

    code = "tool_not_found"


class ResourceNotFound(CallError):
    """Nothing is at that URI."""

    code = "resource_not_found"


class PromptNotFound(CallError):
    """No prompt of that name is published."""

    code = "prompt_not_found"


class InvalidArguments(CallError):
    """The arguments do not fit the tool's input schema; `details` has a line for each problem, `advice` what to do."""

    code = "invalid_arguments"

    def __init__(
        self,
        problems: Sequence[str],
        *,
        tool: str = "",
        kind: str = "tool",
        advice: str = "Mend the arguments and call again.",
    ) -> None:
        of_tool = f" for {kind} '{tool}'" if tool else ""
        super().__init__(f"Input validation failed{of_tool}. {advice}", details=problems)


class InvalidOutput(CallError):
    """The tool ran, but its answer does not fit its output schema; the data is kept in `output`."""

    code = "invalid_output"

    def __init__(self, problems: Sequence[str], *, tool: str, output: Any, kind: str = "tool") -> None:
        super().__init__(f"Output validation failed for {kind} '{tool}'. The {kind} did run.", details=problems)
        self.output = output


class Denied(CallError):
    """A policy refuses this call."""

    code = "denied"


class ApprovalDeclined(CallError):
    """A person was asked and said no."""

    code = "approval_declined"


class MissingScope(CallError):
    """The caller's token lacks a scope that this tool asks for."""

    code = "missing_scope"


class RateLimited(CallError):
    """Too many calls in too short a time."""

    code = "rate_limited"


class Overloaded(CallError):
    """The bridge has no room for another call right now."""

    code = "overloaded"


class ToolTimeout(CallError):
    """The tool did not answer in its time."""

    code = "timeout"

    def __init__(self, tool: str, seconds: float, *, kind: str = "tool") -> None:
        super().__init__(f"{kind.capitalize()} '{tool}' did not answer within {seconds:g} seconds and was stopped.")


class ToolCrashed(CallError):
    """The process that the tool ran in has ended, or was ended; `how` says why, and a new one takes its place."""

    code = "tool_crashed"

    def __init__(self, tool: str, how: str, *, kind: str = "tool") -> None:
        super().__init__(f"{kind.capitalize()} '{tool}' {how}. Nothing else is affected.")


class ToolUnavailable(CallError):
    """The tool exists, but what it stands on does not answer."""

    code = "tool_unavailable"


class ToolFailed(CallError):
    """The tool raised something nobody expected; the log has the traceback under `reference`."""

    code = "internal_error"

    def __init__(self, tool: str, reference: str, *, shown: str = "", kind: str = "tool") -> None:
        reason = f": {shown}" if shown else ""
        super().__init__(f"{kind.capitalize()} '{tool}' failed with an internal error{reason} (reference {reference}).")
        self.reference = reference


class ResultTooLarge(CallError):
    """The answer is larger than the limit."""

    code = "result_too_large"


class MissingCapability(CallError):
    """The client cannot be asked; `required` has what it would have to declare, as `requiredCapabilities` in MCP."""

    code = "missing_capability"

    def __init__(self, required: Mapping[str, Any]) -> None:
        names = ", ".join(f"{name}.{part}" if part else name for name in required for part in required[name] or ("",))
        super().__init__(f"This client cannot be asked: it has not declared the capability {names}.")
        self.required = dict(required)


class InvalidAnswer(CallError):
    """The client's answers to a question were not valid; `details` has a line for each problem."""

    code = "invalid_answer"

    def __init__(
        self, message: str = "The answers to the question were not valid.", *, details: Sequence[str] = ()
    ) -> None:
        super().__init__(message, details=details)


class QuestionExpired(CallError):
    """Nobody answered in time, or the answer came where the call no longer waits."""

    code = "question_expired"


class ToolError(CallError):
    """Raised by a tool's author to tell the model what went wrong; text and code pass verbatim.

    Example: `raise ToolError("city: no such place, try the English name", code="unknown_city")`.
    """

    code = "tool_error"

    def __init__(self, message: str, *, code: str | None = None, details: Sequence[str] = ()) -> None:
        super().__init__(message, details=details)
        if code is not None:
            self.code = code
