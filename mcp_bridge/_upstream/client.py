"""Uses a server for one command of the command line: connects, sends requests, and closes the connection."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import anyio

from mcp_bridge._contracts.errors import BridgeError, SourceError
from mcp_bridge._contracts.jsonrpc import CONNECTION_CLOSED, RpcError
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._protocol.wire.questions import read_needs, render_continuation
from mcp_bridge._upstream.connection import ConnectionLink, NoListener, UpstreamAddress, serve_connection
from mcp_bridge._upstream.messages import INVALID_RESPONSE, NOT_RECEIVED
from mcp_bridge._upstream.session import Era, UpstreamSession
from mcp_bridge._upstream.trust.screening import screen_question

T = TypeVar("T")
START_TIMEOUT = 60.0
"""Seconds that a server may take to start and to agree upon a version. A launcher such as npx may download it first."""
MAX_ROUNDS = 100
"""The maximum number of times that a stateless server can ask the user before it returns the result of a request."""


async def use_server(
    address: UpstreamAddress, eras: Sequence[Era], use: Callable[[UpstreamSession], Awaitable[T]]
) -> T:
    """Connect to a server, and return the result of `use`.

    Raises the BridgeErrors of `use`, and SourceError if the server cannot be reached or returns an error.
    """
    results: list[T] = []
    errors: list[BridgeError] = []

    async def serve(session: UpstreamSession, link: ConnectionLink, start: anyio.CancelScope) -> None:
        try:
            await session.negotiate(eras)
            start.deadline = math.inf
            results.append(await use(session))
        except RpcError as error:
            errors.append(_make_source_error(error, link.reason))
        except BridgeError as error:
            errors.append(error)

    link = ConnectionLink(lambda reason: None)
    reason = await serve_connection(
        address.label, address, NoListener(), link, serve, START_TIMEOUT, has_one_client=True
    )
    if results:
        return results[0]
    if errors:
        raise errors[0]
    raise SourceError(reason)


def _make_source_error(error: RpcError, reason: str) -> SourceError:
    """Return the error to show to the user. `reason` explains the end of the connection, if it has ended."""
    if error.code in (CONNECTION_CLOSED, NOT_RECEIVED):
        return SourceError(reason or error.message)
    if error.code == INVALID_RESPONSE:
        return SourceError(f"{error.message}. Check the address, or use `mcp-bridge doctor`")
    return SourceError(f"the server returned an error: {error.message}")


async def request_result(
    session: UpstreamSession, method: str, params: Mapping[str, Any], ctx: RunningCall
) -> Mapping[str, Any]:
    """Send a request and return its result. The user of `ctx` answers the questions of the server.

    Raises RpcError, and CallError if the user cannot be asked.
    """
    result = await session.relay(method, dict(params), ctx)
    for _ in range(MAX_ROUNDS):
        if result.get("resultType") != "input_required":
            return result
        try:
            needs = read_needs(result.get("inputRequests") or {}, result.get("requestState"))
            questions = {key: screen_question(question, session.name) for key, question in needs.questions.items()}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RpcError(INVALID_RESPONSE, f"the server asked an invalid question: {error}") from error
        answers: Mapping[str, Any] = {}
        if questions:
            answers = await ctx.put(questions)
        result = await session.relay(method, {**params, **render_continuation(answers, needs.state)}, ctx)
    raise RpcError(INVALID_RESPONSE, f"the server asked more than {MAX_ROUNDS} times")
