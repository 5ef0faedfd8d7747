"""Redacts secrets in everything that is sent to clients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, get_args, get_origin

import mcp_types as types
from pydantic import BaseModel

from mcp_bridge.contracts.jsonrpc import RpcError
from mcp_bridge.runtime.redaction import Redactor

_STATE = "requestState"
"""Sealed, so it shows no secrets. A match would be a coincidence, and would break the seal."""
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
        vocabulary = "\n".join({_SCHEMA, *_iter_protocol_words()}) if secrets else ""
        self.redactor.add_secrets(secret for secret in secrets if secret not in vocabulary)

    def redact_result(self, result: Any) -> Any:
        """Return a result without secrets. Pages of lists, which are JSON already, have none."""
        if self.redactor.is_empty or not isinstance(result, dict):
            return result
        redacted = self.redactor.redact_value({key: value for key, value in result.items() if key != _STATE})
        return {**redacted, _STATE: result[_STATE]} if _STATE in result else redacted

    def redact_error(self, error: RpcError) -> RpcError:
        """Return an error without secrets."""
        return RpcError(error.code, self.redactor.redact_text(error.message), self.redactor.redact_value(error.data))


def _iter_protocol_words() -> Iterator[str]:
    """Yield the words of MCP itself: the keys of its messages and the values that it defines."""
    for name, value in vars(types).items():
        if name.startswith("_"):
            continue
        if isinstance(value, str):
            yield value
        elif isinstance(value, type) and issubclass(value, BaseModel):
            for key, field in value.model_fields.items():
                yield field.alias or key
                yield from _iter_literals(field.annotation)


def _iter_literals(annotation: Any) -> Iterator[str]:
    if get_origin(annotation) is Literal:
        yield from (value for value in get_args(annotation) if isinstance(value, str))
    else:
        for part in get_args(annotation):
            yield from _iter_literals(part)
