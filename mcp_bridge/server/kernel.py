"""The SDK's server kernel, with what it does not do by itself."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, cast

from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.models import InitializationOptions
from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider


class Kernel(Server[Any]):
    """Tells HTTP clients of the handshake era that lists change, and traces only where somebody reads the traces."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self.middleware[:] = [cast("ServerMiddleware[Any]", WhenTraced(traced)) for traced in self.middleware]

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """The handshake's answer, with `listChanged` true; the SDK never says so over HTTP."""
        options = notification_options or NotificationOptions(
            tools_changed=True, resources_changed=True, prompts_changed=True
        )
        return super().create_initialization_options(options, experimental_capabilities, extensions)


class WhenTraced:
    """The SDK's tracing, entered only once OpenTelemetry is set up: a span for nobody costs a call a twentieth."""

    def __init__(self, traced: ServerMiddleware[Any]) -> None:
        self._traced = traced

    def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> Awaitable[HandlerResult]:
        """Go on, inside a span or not."""
        if isinstance(get_tracer_provider(), ProxyTracerProvider):
            return call_next(ctx)
        return self._traced(ctx, call_next)
