"""Secrecy: everything that goes to a client goes without the secrets."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator
from copy import copy
from dataclasses import replace
from typing import Any, Literal, get_args, get_origin

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from mcp_bridge.runtime.redaction import Redactor

_STATE = "requestState"
"""Sealed, so nobody can read in it; a hit would be an accident, and would break the seal."""
_SCHEMA = (
    "$schema $defs $ref $anchor $dynamicRef $comment allOf anyOf oneOf not dependentSchemas dependentRequired if then "
    "else prefixItems items contains properties patternProperties additionalProperties propertyNames const enum type "
    "unevaluatedItems unevaluatedProperties multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength "
    "minLength pattern maxItems minItems uniqueItems maxContains minContains maxProperties minProperties required "
    "definitions title description default deprecated readOnly writeOnly examples format null boolean object array "
    "number string integer application/json text/plain"
)


class Secrecy:
    """Middleware of the kernel: results, errors, and on the way to the client notifications and questions.

    Costs nothing while there are no secrets. Values that are words of the protocol itself are no secrets: without
    them no client could read an answer.
    """

    def __init__(self) -> None:
        self.redactor = Redactor()

    def hide(self, secrets: Iterable[str]) -> None:
        """Hide these from clients from now on."""
        secrets = list(secrets)
        words = "\n".join({_SCHEMA, *_words()}) if secrets else ""
        self.redactor.hide(secret for secret in secrets if secret not in words)

    def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> Awaitable[HandlerResult]:
        """Serve one request or notification."""
        return call_next(ctx) if self.redactor.is_idle else self._serve(ctx, call_next)

    async def _serve(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        try:
            result = await call_next(self._guarded(ctx))
        except MCPError as error:
            found = error.error
            message, data = self.redactor.text(found.message), self.redactor.value(found.data)
            if message is found.message and data is found.data:
                raise
            raise MCPError(found.code, message, data) from error
        if isinstance(result, dict):
            shown = self.redactor.value({key: value for key, value in result.items() if key != _STATE})
            return {**shown, _STATE: result[_STATE]} if _STATE in result else shown
        return result

    def _guarded(self, ctx: ServerRequestContext[Any, Any]) -> ServerRequestContext[Any, Any]:
        """The request with its two ways to the client guarded, which the SDK has no public place for."""
        session = copy(ctx.session)
        session._request_outbound = Outgoing(session._request_outbound, self.redactor)
        connection = session._connection
        if connection.has_standalone_channel and not isinstance(connection.outbound, Outgoing):
            connection.outbound = Outgoing(connection.outbound, self.redactor)
        return replace(ctx, session=session)


class Outgoing:
    """A channel of the SDK's to a client, without the secrets."""

    def __init__(self, channel: Any, redactor: Redactor) -> None:
        self._channel = channel
        self._redactor = redactor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    async def notify(self, method: str, params: Any, opts: Any = None) -> None:
        """Send a notification."""
        await self._channel.notify(method, self._redactor.value(params), opts)

    async def send_raw_request(self, method: str, params: Any, opts: Any = None) -> dict[str, Any]:
        """Send a request; the client's answer."""
        answer: dict[str, Any] = await self._channel.send_raw_request(method, self._redactor.value(params), opts)
        return answer

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send progress."""
        await self._channel.progress(progress, total, self._redactor.value(message))


def _words() -> Iterator[str]:
    """What MCP itself says: the keys of its messages, and the values that it knows."""
    for name, thing in vars(types).items():
        if name.startswith("_"):
            continue
        if isinstance(thing, str):
            yield thing
        elif isinstance(thing, type) and issubclass(thing, BaseModel):
            for key, field in thing.model_fields.items():
                yield field.alias or key
                yield from _literals(field.annotation)


def _literals(annotation: Any) -> Iterator[str]:
    if get_origin(annotation) is Literal:
        yield from (value for value in get_args(annotation) if isinstance(value, str))
    else:
        for part in get_args(annotation):
            yield from _literals(part)
