"""One call of one tool by `doctor`: the tool that was named, else one that can be called safely."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_bridge.cli.doctor.conversation import Conversation, Fault
from mcp_bridge.cli.doctor.eras import Tools
from mcp_bridge.cli.doctor.findings import Finding
from mcp_bridge.contracts.errors import ConfigError

SHOWN = 200
"""Characters of an answer that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The tool that a person wants to have called, and its arguments."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


def wanted(text: str | None) -> Wanted | None:
    """What `--call TOOL` or `--call 'TOOL={"key": "value"}'` says. Raises ConfigError for arguments that are none."""
    if text is None:
        return None
    tool, found, given = text.partition("=")
    hint = """Write a tool's name, or its name and arguments: 'add={"a": 1, "b": 2}'"""
    if not tool:
        raise ConfigError("no tool is named", where="--call", hint=hint)
    try:
        arguments = json.loads(given) if found else {}
    except ValueError as error:
        raise ConfigError(f"the arguments are no JSON: {error}", where="--call", hint=hint) from error
    if not isinstance(arguments, dict):
        raise ConfigError(f"the arguments are {type(arguments).__name__}, not an object", where="--call", hint=hint)
    return Wanted(tool=tool, arguments=arguments)


class Trial:
    """Calls a tool in the first conversation that has any, and never again: a call may do something."""

    def __init__(self, wanted: Wanted | None) -> None:
        self._wanted = wanted
        self._done = False

    def __call__(self, conversation: Conversation, tools: Tools, params: dict[str, Any]) -> list[Finding]:
        """The finding of the call, or why there was none."""
        if self._done:
            return []
        self._done = True
        call = self._wanted or _safe(tools)
        if call is None:
            detail = "none was called: no tool says that it only reads and needs no arguments"
            return [Finding("call", True, detail, "Name one that may be called: --call TOOL, or --call 'TOOL={...}'")]
        if call.tool not in (names := [str(tool.get("name")) for tool in tools if isinstance(tool, dict)]):
            return [Finding("call", False, f"there is no tool '{call.tool}'", f"There are: {', '.join(names)}")]
        return [_called(conversation, call, params)]


def _safe(tools: Tools) -> Wanted | None:
    """The first tool that only reads, as it says itself, and needs no arguments."""
    for tool in tools:
        if not isinstance(tool, dict):
            continue
        annotations, schema = tool.get("annotations"), tool.get("inputSchema")
        reads = isinstance(annotations, dict) and annotations.get("readOnlyHint") is True
        if reads and isinstance(schema, dict) and not schema.get("required"):
            return Wanted(tool=str(tool.get("name")))
    return None


def _called(conversation: Conversation, call: Wanted, params: dict[str, Any]) -> Finding:
    check, began = f"call of '{call.tool}'", time.monotonic()
    try:
        answer = conversation.ask("tools/call", {**params, "name": call.tool, "arguments": dict(call.arguments)})
    except Fault as fault:
        return Finding(check, False, fault.what, fault.advice)
    took = f"after {time.monotonic() - began:.2f} s"
    if answer.get("resultType") == "input_required":
        return Finding(
            check, True, f"it asks the person something {took}", "Doctor answers no questions: call it yourself."
        )
    text = _text(answer)
    if answer.get("isError"):
        advice = "The server works, the tool does not: look at its arguments, and at what it needs."
        return Finding(check, False, f"it answered with an error {took}: {text}", advice)
    return Finding(check, True, f"answered {took}: {text}")


def _text(answer: dict[str, Any]) -> str:
    """The beginning of an answer's first text, in one line."""
    content = answer.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    text = next((str(block["text"]) for block in blocks if "text" in block), None)
    if text is None:
        kinds = ", ".join(str(block.get("type")) for block in blocks)
        return kinds or "nothing"
    line = " ".join(text.split())
    return repr(line if len(line) <= SHOWN else f"{line[:SHOWN]}…")
