"""Redacts secrets in everything that is sent to clients."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator
from copy import copy
from dataclasses import replace
from importlib.resources import files
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError

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
    """Kernel middleware that redacts results and errors, and the server's own notifications and requests.

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

    def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> Awaitable[HandlerResult]:
        return call_next(ctx) if self.redactor.is_empty else self._redact_request(ctx, call_next)

    async def _redact_request(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        try:
            result = await call_next(self._wrap_channels(ctx))
        except MCPError as error:
            original = error.error
            message, data = self.redactor.redact_text(original.message), self.redactor.redact_value(original.data)
            if message is original.message and data is original.data:
                raise
            raise MCPError(original.code, message, data) from error
        if isinstance(result, dict):
            redacted = self.redactor.redact_value({key: value for key, value in result.items() if key != _STATE})
            return {**redacted, _STATE: result[_STATE]} if _STATE in result else redacted
        return result

    def _wrap_channels(self, ctx: ServerRequestContext[Any, Any]) -> ServerRequestContext[Any, Any]:
        """Wrap both channels to the client, for which the SDK has no public hook."""
        session = copy(ctx.session)
        session._request_outbound = RedactedChannel(session._request_outbound, self.redactor)
        connection = session._connection
        if connection.has_standalone_channel and not isinstance(connection.outbound, RedactedChannel):
            connection.outbound = RedactedChannel(connection.outbound, self.redactor)
        return replace(ctx, session=session)


class RedactedChannel:
    """A channel of the SDK to a client, which redacts what is sent."""

    def __init__(self, channel: Any, redactor: Redactor) -> None:
        self._channel = channel
        self._redactor = redactor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    async def notify(self, method: str, params: Any, opts: Any = None) -> None:
        await self._channel.notify(method, self._redactor.redact_value(params), opts)

    async def send_raw_request(self, method: str, params: Any, opts: Any = None) -> dict[str, Any]:
        result: dict[str, Any] = await self._channel.send_raw_request(method, self._redactor.redact_value(params), opts)
        return result

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        await self._channel.progress(progress, total, self._redactor.redact_value(message))


def _iter_protocol_words() -> Iterator[str]:
    """Yield the words of MCP itself: the keys of its messages and the values that it defines.

    docs/generate.py writes them to the file, from the official types.
    """
    yield from (files("mcp_bridge.server") / "protocol_words.txt").read_text("ascii").splitlines()
