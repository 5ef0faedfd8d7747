"""Builds the request context for calls of servers on top of the MCP SDK (MCPServer, FastMCP).

Such a server reaches its client through a dispatch context of the SDK. `BackChannel` is a dispatch context that
forwards everything to the running call, so progress, log messages, questions and change notifications are sent like
those of any other tool. The server sees a client of the handshake era, because only in that era a function can wait for
the answer to a question. The bridge carries the question to clients of both eras.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any
from uuid import uuid4

from mcp_bridge._contracts.errors import CallError
from mcp_bridge._contracts.handlers import NeedsInput
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._integrations.frameworks.common import Json, is_a
from mcp_bridge._protocol.wire import questions

VERSION = "2025-11-25"
"""The protocol version that servers see."""
# The progress token of a request without one. The server reports progress only if there is a token.
TOKEN = "bridge"  # noqa: S105
_LIST_CHANGES = frozenset(f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources"))


class BackChannel:
    """The `DispatchContext` of one request: for an SDK server, its connection to the client."""

    can_send_request = True
    message_metadata = None

    def __init__(self, ctx: RunningCall, report_change: Callable[[], None]) -> None:
        self._ctx = ctx
        self._report_change = report_change
        self.request_id = ctx.request_id

    @property
    def transport(self) -> Any:
        """The metadata of the transport, without HTTP headers."""
        return import_module("mcp.shared.transport_context").TransportContext(kind="bridge", can_send_request=True)

    async def send_raw_request(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> Json:
        """Ask the client of the call. Raises MCPError, caused by the error of the bridge."""
        if method == "ping":
            return {}
        try:
            question = questions.read_question(method, params or {})
            return questions.render_answer((await self._ctx.put({"": question}))[""])
        except (CallError, ValueError) as error:
            raise import_module("mcp.shared.exceptions").MCPError(code=-32600, message=str(error)) from error

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> None:
        """Forward a notification to the client of the call."""
        params = params or {}
        if method == "notifications/message":
            await self._ctx.log(params["level"], params.get("data"), params.get("logger"))
        elif method == "notifications/progress":
            await self.progress(params["progress"], params.get("total"), params.get("message"))
        elif method == "notifications/resources/updated":
            self._ctx.resource_updated(str(params["uri"]))
        elif method in _LIST_CHANGES:
            self._report_change()

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress to the client of the call."""
        await self._ctx.report_progress(progress, total, message)


class RequestFactory:
    """Builds request contexts of the SDK. Making a factory imports the SDK.

    Args:
        report_change: Called when a request reports that a list has changed.
    """

    def __init__(self, report_change: Callable[[], None]) -> None:
        self._report_change = report_change
        self._connection = import_module("mcp.server.connection").Connection
        self._session = import_module("mcp.server.session").ServerSession
        self._request = import_module("mcp.server.context").ServerRequestContext

    def build_request(self, ctx: RunningCall, method: str, params: Json, lifespan: Any) -> Any:
        """Build the request context of a call. `lifespan` is the value of the server's lifespan."""
        channel = BackChannel(ctx, self._report_change)
        if ctx.capabilities:
            connection = self._connection.from_envelope(VERSION, None, dict(ctx.capabilities), outbound=channel)
        else:
            connection = self._connection(channel, protocol_version=VERSION)
        connection.session_id = find_session(ctx)
        return self._request(
            session=self._session(channel, connection),
            lifespan_context=lifespan,
            protocol_version=VERSION,
            method=method,
            params={**params, **questions.render_continuation(ctx.answers, ctx.state), "_meta": dict(ctx.meta)},
            request_id=ctx.request_id or "0",
            meta={**ctx.meta, "progress_token": ctx.meta.get("progressToken", TOKEN)},
            close_sse_stream=ctx.close_stream,
        )


def find_session(ctx: RunningCall) -> str:
    """Return the key of the client's session, or a new key for a client without an identity."""
    if ctx.session:
        return ctx.session
    if ctx.client is None:
        return "process"
    return uuid4().hex


def read_needs(result: Any) -> NeedsInput:
    """Return the SDK's InputRequiredResult as a NeedsInput. Raises ValueError if it asks nothing."""
    requests = {key: dump_json(request) for key, request in (result.input_requests or {}).items()}
    return questions.read_needs(requests, result.request_state)


def find_call_error(error: BaseException | None) -> CallError | None:
    """Return the error of the bridge behind an error, such as a missing capability, or None."""
    while error is not None and not isinstance(error, CallError):
        error = error.__cause__
    return error


def is_protocol_error(error: BaseException) -> bool:
    return is_a(error, "mcp", "MCPError")


def read_protocol_error(error: Any) -> tuple[int, Any]:
    """Return the code and the data of an MCPError."""
    return error.error.code, error.error.data


def dump_json(model: Any) -> Json:
    """Return a model of the SDK as JSON on the wire."""
    data: Json = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return data
