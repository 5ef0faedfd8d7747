"""Redacts secrets in everything clients receive, except in text the client itself has sent.

Such text is repeated unchanged: if it were redacted, a client could find out a secret by guessing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import orjson

from mcp_bridge._contracts.errors import InvalidArguments
from mcp_bridge._contracts.jsonrpc import RpcError
from mcp_bridge._contracts.tool import Kind, ToolCall, ToolResult
from mcp_bridge._engine.prepared import PreparedEntry
from mcp_bridge._runtime.exact_json import dump_json
from mcp_bridge._runtime.redaction import Redactor

_STATE = "requestState"
"""The member of a result that is not redacted. It is sealed, so it shows no secrets, and a redaction would break it."""
_PROTOCOL_WORDS = Path(__file__).parent / "protocol_words.txt"
"""The keys of MCP's messages and the values that it defines. docs/generate.py writes them from the official types."""
_SCHEMA = (
    "$schema $defs $ref $anchor $dynamicRef $comment allOf anyOf oneOf not dependentSchemas dependentRequired if then "
    "else prefixItems items contains properties patternProperties additionalProperties propertyNames const enum type "
    "unevaluatedItems unevaluatedProperties multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength "
    "minLength pattern maxItems minItems uniqueItems maxContains minContains maxProperties minProperties required "
    "definitions title description default deprecated readOnly writeOnly examples format null boolean object array "
    "number string integer application/json text/plain"
)


class SecretRedaction:
    """Redacts results and errors. Notifications and requests of the server use the same `redactor`.

    It costs nothing while there are no secrets. A secret that is a word of the protocol, such as "text", is not
    redacted, because no client could read the responses.
    """

    def __init__(self) -> None:
        self.redactor = Redactor()

    def hide(self, secrets: Iterable[str]) -> None:
        """Redact these values from now on."""
        secrets = list(secrets)
        vocabulary = f"{_SCHEMA}\n{_PROTOCOL_WORDS.read_text('ascii')}" if secrets else ""
        self.redactor.add_secrets(secrets, vocabulary=vocabulary)

    def redact_result(self, result: Any) -> Any:
        """Return a result without secrets. Pages of lists are JSON already, and have none."""
        if self.redactor.is_empty or not isinstance(result, dict):
            return result
        redacted_result = self.redactor.redact_value({key: value for key, value in result.items() if key != _STATE})
        if _STATE in result:
            redacted_result = {**redacted_result, _STATE: result[_STATE]}
        return redacted_result

    def redact_error(self, error: RpcError) -> RpcError:
        """Return an error without secrets."""
        return RpcError(error.code, self.redactor.redact_text(error.message), self.redactor.redact_value(error.data))


class RequestError(RpcError):
    """An error without secrets: it has only constant text, text of the client, and text that is already redacted."""


def echo(value: Any) -> orjson.Fragment:
    """Encode a value of the client as JSON, which is not redacted."""
    # Streams keep such values, and orjson's bytes take 2 KiB each, so text is smaller.
    return orjson.Fragment(dump_json(value).decode())


def redact_around(text: str, sent: str, redactor: Redactor) -> str:
    """Redact a text, but not the places where it repeats the text the client has sent."""
    # Text that is not redacted itself cannot be a guess. Splitting by it could divide a secret.
    if redactor.redact_text(sent) == sent:
        return redactor.redact_text(text)
    return sent.join(map(redactor.redact_text, text.split(sent)))


def find_problems(result: ToolResult, entry: PreparedEntry, call: ToolCall, redactor: Redactor) -> str | None:
    """Return the text of an error about the client's arguments, in which only the schema is redacted.

    Returns None for every other error. If a policy has changed the arguments, the error has the same code, but may
    contain secrets.
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
