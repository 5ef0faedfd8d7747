"""Redacts secrets in everything that is sent to clients."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mcp_bridge._contracts.jsonrpc import RpcError
from mcp_bridge._runtime.redaction import Redactor

_STATE = "requestState"
"""Sealed, so it shows no secrets. A match would be a coincidence, and would break the seal."""
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

    It costs nothing while there are no secrets. Values that are words of the protocol itself are not redacted: without
    them no client could read a response.
    """

    def __init__(self) -> None:
        self.redactor = Redactor()

    def hide(self, secrets: Iterable[str]) -> None:
        """Redact these values from now on."""
        secrets = list(secrets)
        vocabulary = f"{_SCHEMA}\n{_PROTOCOL_WORDS.read_text('ascii')}" if secrets else ""
        self.redactor.add_secrets(secrets, vocabulary=vocabulary)

    def redact_result(self, result: Any) -> Any:
        """Return a result without secrets. Pages of lists, which are JSON already, have none."""
        if self.redactor.is_empty or not isinstance(result, dict):
            return result
        redacted = self.redactor.redact_value({key: value for key, value in result.items() if key != _STATE})
        return {**redacted, _STATE: result[_STATE]} if _STATE in result else redacted

    def redact_error(self, error: RpcError) -> RpcError:
        """Return an error without secrets."""
        return RpcError(error.code, self.redactor.redact_text(error.message), self.redactor.redact_value(error.data))
