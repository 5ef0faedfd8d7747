"""The SDK's server, with clearer errors and cheaper tracing."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from functools import partial
from typing import Any, cast
from uuid import uuid4

from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST
from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider
from pydantic import ValidationError

from mcp_bridge.contracts.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from mcp_bridge.runtime.event_loop import is_being_cancelled
from mcp_bridge.wire.protocol_versions import STATELESS, has_feature

logger = logging.getLogger("mcp_bridge.server")


class Kernel(Server[Any]):
    """Declares `listChanged` to HTTP clients of the handshake era, and traces only if OpenTelemetry is set up."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        tracing = [cast("ServerMiddleware[Any]", partial(trace_if_enabled, tracing)) for tracing in self.middleware]
        self.middleware[:] = [explain_errors, *tracing]

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Return the handshake's result with `listChanged` true, which the SDK never declares over HTTP."""
        options = notification_options or NotificationOptions(
            tools_changed=True, resources_changed=True, prompts_changed=True
        )
        return super().create_initialization_options(options, experimental_capabilities, extensions)


async def explain_errors(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Give details of invalid requests, which the SDK omits, and hide those of unexpected errors.

    In the handshake era the SDK sends the text of an unexpected exception to the client.
    """
    is_initialized = ctx.session.client_params is not None
    is_stateless = has_feature(ctx.protocol_version, STATELESS)
    if is_initialized and ctx.method == "initialize" and ctx.request_id is not None and not is_stateless:
        raise MCPError(INVALID_REQUEST, "Invalid Request: this connection is already initialized")
    try:
        return await call_next(ctx)
    except MCPError as error:
        if not is_initialized and error.error.code == INVALID_PARAMS and error.error.data == "":
            raise MCPError(INVALID_REQUEST, "Invalid Request: send initialize first") from error  # raised by the SDK
        raise
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        lines = [f"{'.'.join(map(str, problem['loc'])) or 'params'}: {problem['msg']}" for problem in problems[:5]]
        raise MCPError(INVALID_PARAMS, f"Invalid parameters of {ctx.method}: {'; '.join(lines)}") from error
    except BaseException as error:
        if is_being_cancelled(error):
            raise
        reference = uuid4().hex[:12]
        logger.error("%s failed, reference %s", ctx.method, reference, exc_info=error)
        raise MCPError(INTERNAL_ERROR, f"{ctx.method} failed with an internal error (reference {reference}).") from None


def trace_if_enabled(
    tracing: ServerMiddleware[Any], ctx: ServerRequestContext[Any, Any], call_next: CallNext
) -> Awaitable[HandlerResult]:
    """Run the SDK's tracing once OpenTelemetry is set up: a span that is never exported adds 5 % to a call."""
    return call_next(ctx) if isinstance(get_tracer_provider(), ProxyTracerProvider) else tracing(ctx, call_next)
