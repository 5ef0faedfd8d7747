"""ServedCall: the context of a call of a client, whose progress, log messages and questions reach this client."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote
from uuid import uuid4

from anyio.lowlevel import current_token

from mcp_bridge._contracts.errors import MissingCapability
from mcp_bridge._contracts.log_levels import LEVELS, Level, check_level
from mcp_bridge._contracts.observation import ClientInfo
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.session_state import SessionState, StateValues
from mcp_bridge._contracts.store import Store
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._protocol.wire.meta_keys import CLIENT_INFO, LOG_LEVEL
from mcp_bridge._protocol.wire.values import to_plain
from mcp_bridge._server.questions.handshake import HandshakeChannel, QuestionTimeouts
from mcp_bridge._server.requests import CONNECTION, ClientInfoReader, Request

if TYPE_CHECKING:
    from mcp_bridge._contracts.question import Answer, Question
    from mcp_bridge._policies.approvals.desk import QuestionDesk
    from mcp_bridge._runtime.token_bucket import TokenBucket
    from mcp_bridge._server.questions.requests import QuestionRequest

SESSION = "mcp-bridge/session"
"""The key of a session's name in the `_meta` of a request."""
MAX_NAME = 256
"""The maximum number of characters of the name of a session, which the client chooses."""
RATE = 50.0
"""The maximum number of notifications that a call sends per second on average (basic/utilities/progress: SHOULD)."""
BURST = 100
"""The maximum number of notifications that a call sends in one burst."""
_CLIENTS = ClientInfoReader()
_ONLY_CLIENT = f"process/{uuid4().hex}"
"""The session of all calls if there is only one client, as over stdio. It is unique, because other processes may use
the same store."""


class QuestionChannel(Protocol):
    """Carries questions to the client: as requests of the server, in a response, or in the state of a task."""

    @property
    def loop(self) -> object:
        """The event loop in which questions have to be asked: a value of `anyio.lowlevel.current_token`."""

    async def put(self, questions: Mapping[str, QuestionRequest], *, needed: bool) -> Mapping[str, Any]:
        """Ask, wait, and return the answers by the same keys. `needed` means the questions of a `NeedsInput`."""

    async def wait_for_late_answer(self, question: QuestionRequest) -> Any:
        """Implement `RunningCall.wait_for_late_answer`."""

    async def wait_until_owned(self) -> None:
        """Implement `RunningCall.wait_until_owned`."""


class ServedCall(RunningCall):
    """A running call of a client. It responds to a request; a suspended call has none between two requests.

    Args:
        request: The request that has started the call.
        registry: Runs the calls that this call makes.
        get_store: Returns the store for the state of sessions.
        desk: Asks users on the page if the client cannot ask them.
        timeouts: Limits questions of the handshake era. Without it, such a call cannot ask.

    Attributes:
        handshake_channel: The channel for questions of the handshake era, which the first question makes. It has to be
            closed at the end of the call.
        has_ended: Set at the end of the call, before the channel is closed, so no later question opens one.
    """

    __slots__ = (
        *("_channel", "_client_info", "_desk", "_get_store", "_log_throttle", "_progress", "_progress_throttle"),
        *("_request", "_state_key", "_timeouts", "handshake_channel", "has_ended"),
    )

    def __init__(
        self,
        request: Request,
        registry: ToolRegistry,
        get_store: Callable[[], Store] | None = None,
        desk: QuestionDesk | None = None,
        timeouts: QuestionTimeouts | None = None,
    ) -> None:
        super().__init__(
            caller=registry,
            principal=request.incoming.principal,
            protocol_version=request.version,
            request_id=str(request.id),
            meta=request.meta,
        )
        self.client = request.incoming.client
        request.incoming.holds = self.holds
        if request.session is not None and SESSION not in request.meta:
            self.session = self._state_key = request.session.state_key
        else:
            self.session = self._state_key = _find_session(request, self.principal)
        self._request: Request | None = request
        self._client_info: ClientInfo | None = None
        self._capabilities = request.capabilities
        self._progress: float | None = None
        self._progress_throttle: TokenBucket | None = None
        self._log_throttle: TokenBucket | None = None
        self._channel: QuestionChannel | None = None
        self.handshake_channel: HandshakeChannel | None = None
        self.has_ended = False
        self._timeouts = timeouts
        self._get_store = get_store
        self._desk = desk

    @property
    def state_key(self) -> str:
        if not self._state_key and self.client is not None:
            self._state_key = f"call/{uuid4().hex}"
        return self._state_key

    @property
    def client_info(self) -> ClientInfo:
        if self._client_info is None:
            request = self._request
            if request is None:
                self._client_info = _CLIENTS.read_info(self.meta.get(CLIENT_INFO), self.protocol_version, "")
            elif request.session is not None:
                self._client_info = request.session.client
            else:
                transport = request.incoming.transport
                self._client_info = _CLIENTS.read_info(self.meta.get(CLIENT_INFO), self.protocol_version, transport)
        return self._client_info

    def set_request(self, request: Request | None) -> None:
        """Respond to this request from now on, or to none. The progress of a new request starts again."""
        self._request = request
        if request is not None:
            self._progress = None
            # Each request declares the capabilities again.
            self._capabilities = request.capabilities
            self.request_id = str(request.id)
            self.meta = request.meta

    def ask_through(self, channel: QuestionChannel) -> None:
        self._channel = channel

    def _find_channel(self) -> QuestionChannel | None:
        """Return the channel for questions. In the handshake era, the first question makes it."""
        request = self._request
        if self._channel is None and self._timeouts is not None and request is not None and request.session is not None:
            self._channel = self.handshake_channel = HandshakeChannel(request, self._timeouts, is_closed=self.has_ended)
        return self._channel

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send a progress notification if the request has a token. A value that does not increase is dropped."""
        message = self.filter_message(message)
        if not math.isfinite(progress) or (self._progress is not None and progress <= self._progress):
            return
        if self._progress_throttle is None:
            self._progress_throttle = _make_throttle()
        self._observe_progress(progress, total, message)
        if self._request is not None and self._progress_throttle.take_token():
            self._progress = progress
            await self._request.report_progress(progress, total, message)

    async def log(self, level: Level, data: Any, logger: str | None = None) -> None:
        """Send a log message on this request's stream if the client asked for its level.

        Raises ValueError for an unknown level.
        """
        severity = check_level(level)
        data, logger = self.filter_message(to_plain(data)), self.filter_message(logger)
        self._observe_log(level, data, logger)
        request = self._request
        if request is None:
            return
        lowest_level = self._find_lowest_level()
        if lowest_level not in LEVELS or severity < LEVELS.index(lowest_level):
            return
        if self._log_throttle is None:
            self._log_throttle = _make_throttle()
        if not self._log_throttle.take_token():
            return
        params: dict[str, Any] = {"level": level, "data": data}
        if logger is not None:
            params["logger"] = logger
        await request.notify("notifications/message", params)

    async def put(self, questions: Mapping[str, Question]) -> Mapping[str, Any]:
        """Ask several questions at once, by key. The deadlines of the call pause until the answers arrive."""
        # Only the first question needs this module, not the start.
        from mcp_bridge._server.questions.requests import (
            is_capability_missing,
            merge_capabilities,
            to_request,
            with_plain_answers,
        )

        self.is_interactive = True
        needed = self.needs is not None and questions is self.needs.questions
        requests = {key: to_request(question, self.protocol_version) for key, question in questions.items()}
        if needed:
            requests = {key: with_plain_answers(request) for key, request in requests.items()}
        required = [request.required for request in requests.values()]
        missing = [capabilities for capabilities in required if is_capability_missing(self.capabilities, capabilities)]
        channel = self._find_channel()
        if missing or channel is None:
            answers = await self._ask_desk(questions, requests)
            if answers is not None:
                return answers
            raise MissingCapability(merge_capabilities(missing or required))
        if current_token() != channel.loop:
            raise RuntimeError(
                "ask in the server's event loop: a synchronous function calls anyio.from_thread.run(ctx.ask, ...)"
            )
        with self.release_holds():
            return await channel.put(requests, needed=needed)

    async def wait_for_late_answer(self, message: str, schema: Any = None) -> Answer[Any] | None:
        """Wait until a request of the client is open, and return its answer to a withdrawn question, or None."""
        if self._channel is None:
            return None
        from mcp_bridge._contracts.question import Form
        from mcp_bridge._server.questions.requests import to_request

        request = to_request(Form(message, schema), self.protocol_version)
        answer: Answer[Any] | None = await self._channel.wait_for_late_answer(request)
        return answer

    async def wait_until_owned(self) -> None:
        if self._channel is not None:
            await self._channel.wait_until_owned()

    async def _ask_desk(
        self, questions: Mapping[str, Question], requests: Mapping[str, QuestionRequest]
    ) -> Mapping[str, Any] | None:
        """Ask users on the page, because the client cannot ask. Return None if no user can answer all questions."""
        desk = self._desk
        if desk is None:
            return None
        from mcp_bridge._contracts.question import ApprovalForm, Form, Link

        for question in questions.values():
            # The policy of approvals asks the desk itself.
            if type(question) is ApprovalForm or not isinstance(question, Form | Link):
                return None
        tool = self.observation.name if self.observation is not None else ""
        answers: dict[str, Any] = {}
        with self.release_holds():
            for key, request in requests.items():
                answer = await desk.ask_form(tool, request.params, request.read, principal=self.principal)
                if answer is None:
                    return None
                answers[key] = request.read(answer.value)
        return answers

    def open_session_state(self) -> StateValues:
        """Return the values of this session. Without a session, they last as long as the call."""
        session = self.session
        if not session and self.client is None:
            session = _ONLY_CLIENT
        if self._get_store is None or not session:
            return SessionState()
        return SessionState(self._get_store(), session)

    def on_session_end(self, callback: Callable[[], None]) -> None:
        """Run `callback` when the connection ends, if the session is a connection. Others do not announce their end."""
        request = self._request
        if request is not None and request.session is not None and self.session.startswith(CONNECTION):
            request.session.on_end(callback)

    async def close_stream(self) -> None:
        if self._request is not None:
            await self._request.incoming.stream.close()

    def _find_lowest_level(self) -> Any:
        """Return the least severe level the client asked for, or None."""
        assert self._request is not None
        session = self._request.session
        return session.log_level if session is not None else self.meta.get(LOG_LEVEL)


def _make_throttle() -> TokenBucket:
    # Only a call that sends notifications needs this module.
    from mcp_bridge._runtime.token_bucket import TokenBucket

    return TokenBucket(rate=RATE, burst=BURST)


def _find_session(request: Request, principal: str | None) -> str:
    """Return the key of the session: the name in the request, or else the connection, or else the principal."""
    name = request.meta.get(SESSION)
    if isinstance(name, str) and 0 < len(name) <= MAX_NAME:
        return f"named/{quote(principal or '', safe='')}/{name}"
    if request.session is not None:
        return request.session.state_key
    return f"principal/{principal}" if principal else ""
