"""Responses that repeat what the client sent. That text is not redacted, because redaction would confirm a guess."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from mcp_bridge._contracts.errors import InvalidArguments
from mcp_bridge._contracts.jsonrpc import RpcError
from mcp_bridge._contracts.tool import Kind, ToolCall, ToolResult
from mcp_bridge._engine.prepared import PreparedEntry
from mcp_bridge._runtime.exact_json import dump_json
from mcp_bridge._runtime.redaction import Redactor


class RequestError(RpcError):
    """An error that needs no redaction: constant text, text that the client sent, and text that is already redacted."""


def echo(value: Any) -> orjson.Fragment:
    """Encode a value that the client sent without redaction."""
    return orjson.Fragment(dump_json(value).decode())  # streams keep it, and orjson's bytes occupy 2 KiB


def redact_around(text: str, sent: str, redactor: Redactor) -> str:
    """Redact a text except where it repeats what the client sent."""
    if redactor.redact_text(sent) == sent:  # splitting there could split a secret
        return redactor.redact_text(text)
    return sent.join(map(redactor.redact_text, text.split(sent)))


def find_problems(result: ToolResult, entry: PreparedEntry, call: ToolCall, redactor: Redactor) -> str | None:
    """Return the text of an error about the arguments that the client sent, in which only the schema is redacted.

    None for every other error. One about arguments that a policy has changed has the same code, and may have secrets.
    """
    if result.code != InvalidArguments.code or redactor.is_empty:
        return None
    if entry.input.is_valid(call.arguments):
        return None
    problems = entry.input.describe_problems(call.arguments, call.root)
    if result.error_text != InvalidArguments(problems, tool=call.name, kind=call.kind).text:
        return None
    schema: Any = redactor.redact_value(entry.input.schema)
    if schema is not entry.input.schema:
        from mcp_bridge._json_schema.validator import Validator

        problems = Validator(schema).describe_problems(call.arguments, call.root)
    return describe_problems(problems, entry, redactor, kind=call.kind)


def describe_problems(problems: Sequence[str], entry: PreparedEntry, redactor: Redactor, *, kind: Kind = "tool") -> str:
    """Return the text of an error about arguments. The name is redacted, the problems are not."""
    return InvalidArguments(problems, tool=redactor.redact_text(entry.name), kind=kind).text
