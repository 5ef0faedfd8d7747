"""The context of a call that a client made."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol, get_args

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext

from mcp_bridge.contracts.context import CallContext, Hold, Level
from mcp_bridge.contracts.errors import MissingCapability
from mcp_bridge.contracts.question import Question
from mcp_bridge.registry import ToolRegistry
from mcp_bridge.server.questions import Posed, lacking, pose, wired
from mcp_bridge.server.throttle import Throttle
from mcp_bridge.wire.values import plain
from mcp_bridge.wire.versions import STATELESS, carries

Request = ServerRequestContext[Any, Any]
LEVELS: tuple[str, ...] = get_args(Level)
"""From the least to the most severe."""
LEVEL = "mcp-bridge/log-level"
"""Where a handshake connection keeps the level that its client has set."""
DEFAULT_LEVEL = "info"
"""What a handshake client hears that has set no level: the specification leaves that to the server."""


class Asking(Protocol):
    """How questions reach the client: as requests of the server, or between two requests of the client."""

    async def put(self, questions: Mapping[str, Posed]) -> Mapping[str, Any]:
        """Ask, wait, and return the answers by the same keys."""
        ...


class ServedContext(CallContext):
    """A running call with a client behind it: progress and log reach whoever asked for them, questions the person.

    `serve` points it to the request that it now answers; between two requests of a parked call there is none.
    """

    __slots__ = ("_asked", "_asking", "_began", "_given_back", "_progress", "_request", "_throttle")

    def __init__(self, request: Request, registry: ToolRegistry) -> None:
        super().__init__(
            caller=registry,
            protocol_version=request.protocol_version,
            request_id=str(request.request_id),
            meta=request.meta,
        )
        self._request: Request | None = request
        self._progress: float | None = None
        self._throttle: Throttle | None = None
        self._asking: Asking | None = None
        self._asked = 0
        self._began = 0.0
        self._given_back: list[Hold] = []

    def serve(self, request: Request | None) -> None:
        """Answer this request from now on; its progress begins anew."""
        self._request = request
        if request is not None:
            self._progress = None
            self.request_id, self.meta = str(request.request_id), request.meta or {}

    def ask_through(self, asking: Asking) -> None:
        """Put questions this way."""
        self._asking = asking

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the client has declared that it can do."""
        if self._capabilities is None:
            declared = self._request.session.client_capabilities if self._request is not None else None
            self._capabilities = declared.model_dump(by_alias=True, exclude_none=True) if declared is not None else {}
        return self._capabilities

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send a progress notification where the client gave a token; a value that does not grow is left out."""
        if (self._progress is not None and progress <= self._progress) or not self._may_notify():
            return
        self._progress = progress
        if self._request is not None:
            await self._request.session.report_progress(progress, total, message)

    async def log(self, level: Level, data: Any, logger: str | None = None) -> None:
        """Send a log message on this request's stream, where its client asked for such. Raises ValueError: no level."""
        severity = LEVELS.index(level) if level in LEVELS else None
        if severity is None:
            raise ValueError(f"a log level is one of {', '.join(LEVELS)}, found {level!r}")
        request = self._request
        wanted = self._wanted() if request is not None else None
        if request is None or wanted not in LEVELS or severity < LEVELS.index(wanted) or not self._may_notify():
            return
        params = types.LoggingMessageNotificationParams(level=level, data=plain(data), logger=logger)
        notification = types.LoggingMessageNotification(params=params)
        await request.session.send_notification(notification, related_request_id=request.request_id)

    async def put(self, questions: Mapping[str, Question]) -> Mapping[str, Any]:
        """Put several questions at once, by key; the call's deadlines stop until they are answered."""
        posed = {key: pose(question, self.protocol_version) for key, question in questions.items()}
        if self.needs is not None:
            posed = {key: wired(one) for key, one in posed.items()}
        missing = [one.required for one in posed.values() if lacking(self.capabilities, one.required)]
        if missing or self._asking is None:
            required = missing or [one.required for one in posed.values()]
            raise MissingCapability({name: parts for one in required for name, parts in one.items()})
        async with self._paused():
            return await self._asking.put(posed)

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

    def _may_notify(self) -> bool:
        if self._throttle is None:
            self._throttle = Throttle()
        return self._throttle.allows()

    @asynccontextmanager
    async def _paused(self) -> AsyncIterator[None]:
        """Give back what the call holds; the last of several questions takes it again."""
        if not self._asked:
            self._began, self._given_back = anyio.current_time(), list(self.holds)
            for hold in reversed(self._given_back):
                hold.pause()
        self._asked += 1
        try:
            yield
        finally:
            self._asked -= 1
            if not self._asked:
                if self.deadline is not None:
                    self.deadline += anyio.current_time() - self._began
                for hold in self._given_back:
                    await hold.resume()
