"""Instrumentation: measures and traces the messages of an endpoint.

The endpoint uses it only if there is a recorder, or if other code has imported OpenTelemetry. Providers of
OpenTelemetry may be set late, so they are looked up for each message.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Protocol

from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._server.metrics import (
    SESSION,
    TRANSPORTS,
    DurationRecorder,
    MessageMeasurement,
    OpenTelemetryRecorder,
    record_duration,
)
from mcp_bridge._server.requests import Session
from mcp_bridge._version import __version__

if TYPE_CHECKING:
    from mcp_bridge._server.tracing import MessageTracing

OPEN_TELEMETRY = "opentelemetry"
"""The package that other code has to import before it can set a provider."""
_METRICS = f"{OPEN_TELEMETRY}.metrics"
_NOTIFICATIONS = frozenset({"notifications/initialized", "notifications/cancelled", "notifications/progress"})
"""The notifications that clients send, including those that have no effect on the server."""


class MessageWatch(Protocol):
    """Watches one message: its measurement, or its span."""

    def activate(self) -> AbstractContextManager[None]:
        """Watch the block around the serving of the message. An error in it ends the message."""

    def finish(self, result: Any) -> None:
        """Record the result of the message."""


class Instrumentation:
    """Measures and traces the messages of an endpoint.

    `methods` has the names of all methods. `is_published` returns whether the tool or prompt that a request names
    exists. Other names do not become attributes, because clients could send any number of them.

    Attributes:
        recorders: The recorders of the endpoint, without the one of OpenTelemetry.
    """

    def __init__(self, redactor: Redactor, methods: Set[str], is_published: Callable[[str, str], bool]) -> None:
        self._redactor = redactor
        self._methods = methods | _NOTIFICATIONS
        self._is_published = is_published
        self.recorders: tuple[DurationRecorder, ...] = ()
        # All recorders, with the one for this provider of OpenTelemetry.
        self._all: Sequence[DurationRecorder] = ()
        self._provider: Any = None

    @cached_property
    def _tracing(self) -> MessageTracing:
        # Most servers trace nothing, and do not need this module.
        from mcp_bridge._server.tracing import MessageTracing

        return MessageTracing(self._redactor)

    def observe(
        self,
        serve: Callable[[], Any],
        method: str,
        params: Mapping[str, Any],
        *,
        version: str,
        transport: str,
        session: Session | None,
        request_id: str | int | None = None,
    ) -> Any:
        """Call `serve` and observe it. If `serve` returns a coroutine, return one that is observed until its end."""
        watches: list[MessageWatch] = []
        if f"{OPEN_TELEMETRY}.trace" in sys.modules:
            span = self._tracing.start_span(method, params, version=version, session=session, request_id=request_id)
            if span is not None:
                watches.append(span)
        recorders = self.find_recorders()
        if recorders:
            watches.append(MessageMeasurement(recorders, self._describe_message(method, params, version, transport)))
        with _activate_all(watches):
            outcome = serve()
        if type(outcome) is CoroutineType:
            return _finish_later(watches, outcome)
        for watch in watches:
            watch.finish(outcome)
        return outcome

    def add_recorder(self, recorder: DurationRecorder) -> None:
        """Record the durations of messages and sessions with this recorder, too."""
        self.recorders = (*self.recorders, recorder)
        # The next message looks up the provider of OpenTelemetry again.
        self._all = self.recorders
        self._provider = None

    def record_session(self, session: Session) -> None:
        """Record the duration of a session at its end."""
        if not session.version:
            # The connection was not a session: it was not initialized, or served stateless requests.
            return
        recorders = self.find_recorders()
        if recorders:
            attributes = {"mcp.protocol.version": session.version, **TRANSPORTS.get(session.client.transport, {})}
            record_duration(recorders, SESSION, session.began, attributes)

    def find_recorders(self) -> Sequence[DurationRecorder]:
        """Return all recorders, with the one of OpenTelemetry if a provider is set."""
        get_provider = getattr(sys.modules.get(_METRICS), "get_meter_provider", None)
        if get_provider is None:
            return self.recorders
        provider = get_provider()
        if provider is not self._provider:
            recorders = self.recorders
            # The providers of the API itself record nothing: one does nothing, and one is a proxy for a later provider.
            if not type(provider).__module__.startswith(_METRICS):
                recorders = (*recorders, OpenTelemetryRecorder(provider.get_meter("mcp_bridge", __version__)))
            # If `get_meter` raises, the next message tries again.
            self._all = recorders
            self._provider = provider
        return self._all

    def _describe_message(self, method: str, params: Mapping[str, Any], version: str, transport: str) -> dict[str, str]:
        method_name = method if method in self._methods else "_OTHER"
        attributes = {"mcp.method.name": method_name, "mcp.protocol.version": version, **TRANSPORTS.get(transport, {})}
        name = params.get("name")
        if method == "tools/call":
            attributes["gen_ai.operation.name"] = "execute_tool"
        if isinstance(name, str) and self._is_published(method, name):
            attribute = "gen_ai.tool.name" if method == "tools/call" else "gen_ai.prompt.name"
            attributes[attribute] = name
        return attributes


@contextmanager
def _activate_all(watches: Sequence[MessageWatch]) -> Iterator[None]:
    with ExitStack() as stack:
        for watch in watches:
            stack.enter_context(watch.activate())
        yield


async def _finish_later(watches: Sequence[MessageWatch], outcome: Coroutine[Any, Any, Any]) -> Any:
    with _activate_all(watches):
        result = await outcome
    for watch in watches:
        watch.finish(result)
    return result
