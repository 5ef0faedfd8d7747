"""The context of a call that a client made."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol
from urllib.parse import quote
from uuid import uuid4

import mcp_types as types
from anyio.lowlevel import current_token
from mcp.server.context import ServerRequestContext

from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import MissingCapability
from mcp_bridge.contracts.levels import LEVELS, Level, check_level
from mcp_bridge.contracts.question import Question
from mcp_bridge.registry.registry import ToolRegistry
from mcp_bridge.server.questions import Posed, lacking, merged, pose, wired
from mcp_bridge.server.throttle import Throttle
from mcp_bridge.wire.values import plain
from mcp_bridge.wire.versions import STATELESS, carries

Request = ServerRequestContext[Any, Any]
LEVEL = "mcp-bridge/log-level"
"""Where a handshake connection keeps the level that its client has set."""
SESSION = "mcp-bridge/session"
"""Where a handshake connection keeps what its session is called, and what a request's `_meta` calls its own."""
NAME = 256
"""The most characters in the name of a session that clients give."""
_CONNECTION = "connection/"
DEFAULT_LEVEL = "info"
"""What a handshake client hears that has set no level: the specification leaves that to the server."""


class Asking(Protocol):
    """How questions reach the client: as requests of the server, or between two requests of the client."""

    async def put(self, questions: Mapping[str, Posed], *, needed: bool) -> Mapping[str, Any]:
        """Ask, wait, and return the answers by the same keys; `needed` are those of a `NeedsInput`."""
        ...

    async def attended(self) -> None:
        """Wait until a request of the client is open."""
        ...


class ServedContext(CallContext):
    """A running call with a client behind it: progress and log reach whoever asked for them, questions the person.

    `serve` points it to the request that it now answers; between two requests of a parked call there is none.
    """

    __slots__ = ("_asking", "_declared", "_logging", "_loop", "_progress", "_progressing", "_request")

    def __init__(self, request: Request, registry: ToolRegistry) -> None:
        super().__init__(
            caller=registry,
            protocol_version=request.protocol_version,
            request_id=str(request.request_id),
            meta=request.meta,
        )
        self.session = _session(request, self.principal)
        self._request: Request | None = request
        self._declared = request.session.client_capabilities
        self._progress: float | None = None
        self._progressing: Throttle | None = None
        self._logging: Throttle | None = None
        self._asking: Asking | None = None
        self._loop: object = None

    def serve(self, request: Request | None) -> None:
        """Answer this request from now on; its progress begins anew."""
        self._request = request
        if request is not None:
            self._progress = self._capabilities = None
            self._declared = request.session.client_capabilities  # each request says anew what its client can do
            self.request_id, self.meta = str(request.request_id), request.meta or {}

    def ask_through(self, asking: Asking) -> None:
        """Put questions this way, from this event loop."""
        self._asking, self._loop = asking, current_token()

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the client has declared that it can do."""
        if self._capabilities is None:
            declared = self._declared
            self._capabilities = declared.model_dump(by_alias=True, exclude_none=True) if declared is not None else {}
        return self._capabilities

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send a progress notification where the client gave a token; a value that does not grow is left out."""
        if not math.isfinite(progress) or (self._progress is not None and progress <= self._progress):
            return
        if self._progressing is None:
            self._progressing = Throttle()
        if self._request is not None and self._progressing.allows():
            self._progress = progress
            await self._request.session.report_progress(progress, total, message)

    async def log(self, level: Level, data: Any, logger: str | None = None) -> None:
        """Send a log message on this request's stream, where its client asked for such. Raises ValueError: no level."""
        severity = check_level(level)
        request = self._request
        wanted = self._wanted() if request is not None else None
        if request is None or wanted not in LEVELS or severity < LEVELS.index(wanted):
            return
        if self._logging is None:
            self._logging = Throttle()
        if not self._logging.allows():
            return
        params = types.LoggingMessageNotificationParams(level=level, data=plain(data), logger=logger)
        notification = types.LoggingMessageNotification(params=params)
        await request.session.send_notification(notification, related_request_id=request.request_id)

    async def put(self, questions: Mapping[str, Question]) -> Mapping[str, Any]:
        """Put several questions at once, by key; the call's deadlines stop until they are answered."""
        needed = self.needs is not None and questions is self.needs.questions
        posed = {key: pose(question, self.protocol_version) for key, question in questions.items()}
        if needed:
            posed = {key: wired(one) for key, one in posed.items()}
        missing = [one.required for one in posed.values() if lacking(self.capabilities, one.required)]
        if missing or self._asking is None:
            raise MissingCapability(merged(missing or (one.required for one in posed.values())))
        if current_token() != self._loop:
            raise RuntimeError(
                "a synchronous function asks by anyio.from_thread.run(ctx.ask, ...), in the server's loop"
            )
        with self.paused():
            return await self._asking.put(posed, needed=needed)

    async def attended(self) -> None:
        """Wait until a request of the client is open, unless a handler has begun: no other instance goes on then."""
        if self._asking is not None and not self.begun:
            await self._asking.attended()

    def when_left(self, callback: Callable[[], None]) -> None:
        """Call this when the connection that is the session ends; nobody can tell when another client has left."""
        if self._request is not None and self.session.startswith(_CONNECTION):
            self._request.session._connection.exit_stack.callback(callback)

    async def close_stream(self) -> None:
        """Close the stream of this request where its client can resume it."""
        if self._request is not None and self._request.close_sse_stream is not None:
            await self._request.close_sse_stream()

    def _wanted(self) -> Any:
        """The least severe level that the client wants to hear; None for none."""
        assert self._request is not None
        if carries(self.protocol_version, STATELESS):
            return self.meta.get(types.LOG_LEVEL_META_KEY)
        return self._request.session._connection.state.get(LEVEL, DEFAULT_LEVEL)


def _session(request: Request, principal: str | None) -> str:
    """What the client's session is called: as its request says, else by its connection, else by who it is."""
    named = (request.meta or {}).get(SESSION)
    if isinstance(named, str) and 0 < len(named) <= NAME:
        return f"named/{quote(principal or '', safe='')}/{named}"
    if not carries(request.protocol_version, STATELESS):
        state = request.session._connection.state
        return str(state.get(SESSION) or state.setdefault(SESSION, _CONNECTION + uuid4().hex))
    return f"principal/{principal}" if principal else ""
