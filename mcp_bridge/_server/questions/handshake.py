"""HandshakeChannel: questions of the handshake era. The server sends them as requests while the call is open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import anyio
from anyio.lowlevel import current_token

from mcp_bridge._contracts.errors import (
    ApprovalDeclined,
    CallError,
    InvalidAnswer,
    QuestionExpired,
    ToolUnavailable,
)
from mcp_bridge._contracts.jsonrpc import RpcError
from mcp_bridge._server.requests import Request

if TYPE_CHECKING:
    from mcp_bridge._server.questions.requests import QuestionRequest

CALL_ENDED = "The call is over, so the user cannot be asked."
REJECTED = -1
"""The error code of clients for a request that their user has rejected (client/sampling, "Error Handling")."""


class QuestionTimeouts:
    """Expires the questions of an endpoint after `ttl` seconds, and at its shutdown.

    Attributes:
        loop: The event loop of the endpoint (`anyio.lowlevel.current_token`), or None before `open`.
    """

    def __init__(self, ttl: float) -> None:
        self._ttl = ttl
        self._scopes: set[anyio.CancelScope] = set()
        self._is_closed = False
        self.loop: object = None

    def open(self) -> None:
        self._is_closed = False
        self.loop = current_token()

    def close(self) -> None:
        """Expire all open questions and reject new ones."""
        self._is_closed = True
        for scope in self._scopes:
            scope.cancel()

    @contextmanager
    def limit_wait(self) -> Iterator[None]:
        """Limit the time for which the block waits for an answer. Raises QuestionExpired."""
        if self._is_closed:
            raise QuestionExpired("The server is shutting down, so the user cannot be asked.")
        with anyio.move_on_after(self._ttl) as scope:
            self._scopes.add(scope)
            try:
                yield
            finally:
                self._scopes.discard(scope)
        if scope.cancelled_caught:
            reason = "The server is shutting down." if self._is_closed else f"No answer within {self._ttl:g} seconds."
            raise QuestionExpired(f"{reason} Retry the call.")


class HandshakeChannel:
    """Asks by requests of the server, on the stream of the client's request.

    `close` must be called at the end of the call. If the call has already ended, `is_closed` is true, and all questions
    are rejected.
    """

    __slots__ = ("_is_closed", "_request", "_scopes", "_timeouts")

    def __init__(self, request: Request, timeouts: QuestionTimeouts, *, is_closed: bool) -> None:
        self._request = request
        self._timeouts = timeouts
        self._scopes: set[anyio.CancelScope] = set()
        self._is_closed = is_closed

    def close(self) -> None:
        """Expire the open questions and reject new ones. Tasks and threads of a call can outlive the call."""
        self._is_closed = True
        for scope in self._scopes:
            scope.cancel()

    @property
    def loop(self) -> object:
        return self._timeouts.loop

    async def put(self, questions: Mapping[str, QuestionRequest], *, needed: bool) -> Mapping[str, Any]:
        """Ask all questions at once, and wait for every answer. Raises as `CallContext.ask` does."""
        # The common case needs no task group.
        if len(questions) == 1:
            return {key: await self._ask(question) for key, question in questions.items()}
        answers: dict[str, Any] = {}
        errors: list[CallError] = []

        async def ask_one(key: str, question: QuestionRequest, scope: anyio.CancelScope) -> None:
            try:
                answers[key] = await self._ask(question)
            except CallError as error:
                errors.append(error)
                scope.cancel()

        async with anyio.create_task_group() as tasks:
            for key, question in questions.items():
                tasks.start_soon(ask_one, key, question, tasks.cancel_scope)
        if errors:
            raise errors[0]
        return {key: answers[key] for key in questions}

    async def wait_for_late_answer(self, question: QuestionRequest) -> Any:
        """Return None. The server has cancelled its request to the client, so no answer can arrive."""

    async def wait_until_owned(self) -> None:
        """Do nothing. The call belongs to the session, and so to this process."""

    async def _ask(self, question: QuestionRequest) -> Any:
        from mcp_bridge._server.questions.requests import TRIES, AnswerMismatch

        problems: list[str] = []
        with self._timeouts.limit_wait(), self._limit_to_call():
            for _ in range(TRIES):
                try:
                    return question.read(await self._send(question, problems))
                except AnswerMismatch as error:
                    problems = error.problems
        raise InvalidAnswer(details=problems)

    @contextmanager
    def _limit_to_call(self) -> Iterator[None]:
        if self._is_closed:
            raise QuestionExpired(CALL_ENDED)
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                yield
            finally:
                self._scopes.discard(scope)
        if scope.cancelled_caught:
            raise QuestionExpired(CALL_ENDED)

    async def _send(self, question: QuestionRequest, problems: list[str]) -> Any:
        message = question.to_mcp(problems)
        try:
            return await self._request.ask_client(message["method"], message["params"])
        except RpcError as error:
            if error.code == REJECTED:
                raise ApprovalDeclined(f"The user declined the request: {error.message}") from error
            raise ToolUnavailable(f"The client could not answer: {error.message}") from error
