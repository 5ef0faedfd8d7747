"""Questions of the handshake era: the server's own requests, while the client's request is open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from pydantic import BaseModel, ConfigDict, ValidationError

from mcp_bridge.contracts.errors import (
    ApprovalDeclined,
    CallError,
    InvalidAnswer,
    MissingCapability,
    QuestionExpired,
    ToolUnavailable,
)
from mcp_bridge.server.context import Request
from mcp_bridge.server.questions import ELICIT, LIST_ROOTS, SAMPLE, TRIES, Posed, Unfit

REJECTED = -1
"""What clients answer when their user refuses (client/sampling, "Error Handling")."""
_REQUESTS: dict[str, type[types.ServerRequest]] = {
    ELICIT: types.ElicitRequest,
    SAMPLE: types.CreateMessageRequest,
    LIST_ROOTS: types.ListRootsRequest,
}


class Raw(BaseModel):
    """Any result, as it came."""

    model_config = ConfigDict(extra="allow")


class Waits:
    """How long the questions of an endpoint wait: `ttl` seconds, and no longer than it serves."""

    def __init__(self, ttl: float) -> None:
        self._ttl = ttl
        self._open: set[anyio.CancelScope] = set()
        self._ended = False

    def begin(self) -> None:
        """The endpoint serves."""
        self._ended = False

    def end(self) -> None:
        """The endpoint ends: no answer will be heard any more."""
        self._ended = True
        for scope in self._open:
            scope.cancel()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Wait for an answer inside. Raises QuestionExpired."""
        if self._ended:
            raise QuestionExpired("The server is shutting down, so nobody can be asked.")
        with anyio.move_on_after(self._ttl) as scope:
            self._open.add(scope)
            try:
                yield
            finally:
                self._open.discard(scope)
        if scope.cancelled_caught:
            why = "The server is shutting down." if self._ended else f"Nobody answered within {self._ttl:g} seconds."
            raise QuestionExpired(f"{why} Call again.")


class Handshake:
    """Asks over the open request. A question waits as long as its `waits` say."""

    def __init__(self, request: Request, waits: Waits) -> None:
        self._request = request
        self._waits = waits

    async def put(self, questions: Mapping[str, Posed], *, needed: bool) -> Mapping[str, Any]:
        """Ask them all at once, and wait for every answer. Raises as `CallContext.ask`."""
        if len(questions) == 1:
            return {key: await self._ask(posed) for key, posed in questions.items()}
        answers: dict[str, Any] = {}
        failed: list[CallError] = []

        async def ask(key: str, posed: Posed, scope: anyio.CancelScope) -> None:
            try:
                answers[key] = await self._ask(posed)
            except CallError as error:
                failed.append(error)
                scope.cancel()

        async with anyio.create_task_group() as tasks:
            for key, posed in questions.items():
                tasks.start_soon(ask, key, posed, tasks.cancel_scope)
        if failed:
            raise failed[0]
        return {key: answers[key] for key in questions}

    async def attended(self) -> None:
        """Its request is open for as long as the call runs."""

    async def _ask(self, posed: Posed) -> Any:
        problems: list[str] = []
        with self._waits.waiting():
            for _ in range(TRIES):
                try:
                    return posed.read(await self._send(posed, problems))
                except Unfit as error:
                    problems = error.problems
        raise InvalidAnswer("The question was not answered with what it asks for.", details=problems)

    async def _send(self, posed: Posed, problems: list[str]) -> Any:
        request: Any = _REQUESTS[posed.method].model_validate(posed.to_mcp(problems))
        related = ServerMessageMetadata(related_request_id=self._request.request_id)
        try:
            result = await self._request.session.send_request(request, Raw, metadata=related)
        except NoBackChannelError as error:
            raise MissingCapability(posed.required) from error
        except MCPError as error:
            if error.code == REJECTED:
                raise ApprovalDeclined(f"The person at the client refused: {error.message}") from error
            raise ToolUnavailable(f"The client could not answer: {error.message}") from error
        except ValidationError as error:
            raise Unfit([f"$: not a result of {posed.method}"]) from error
        return result.model_dump(by_alias=True)
