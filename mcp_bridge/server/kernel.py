"""The SDK's server kernel, with what it does not do by itself."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, cast

from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError
from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider
from pydantic import ValidationError

from mcp_bridge.wire.outcomes import INVALID_PARAMS


class Kernel(Server[Any]):
    """Tells HTTP clients of the handshake era that lists change, and traces only where somebody reads the traces."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        traced = [cast("ServerMiddleware[Any]", WhenTraced(traced)) for traced in self.middleware]
        self.middleware[:] = [explained, *traced]

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


async def explained(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Say what is wrong with the parameters of a request, where the SDK says only that something is."""
    try:
        return await call_next(ctx)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        lines = [f"{'.'.join(map(str, problem['loc'])) or 'params'}: {problem['msg']}" for problem in problems[:5]]
        raise MCPError(INVALID_PARAMS, f"Invalid parameters of {ctx.method}: {'; '.join(lines)}") from error


class WhenTraced:
    """The SDK's tracing, entered only once OpenTelemetry is set up: a span for nobody costs a call a twentieth."""

    def __init__(self, traced: ServerMiddleware[Any]) -> None:
        self._traced = traced

    def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> Awaitable[HandlerResult]:
        """Go on, inside a span or not."""
        if isinstance(get_tracer_provider(), ProxyTracerProvider):
            return call_next(ctx)
        return self._traced(ctx, call_next)
