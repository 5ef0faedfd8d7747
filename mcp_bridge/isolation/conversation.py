"""One call in a worker, as the bridge sees it: sends the call, answers its requests, and receives its result."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import anyio

from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import InvalidOutput
from mcp_bridge.contracts.question import NeedsInput
from mcp_bridge.contracts.tool import ToolEntry, ToolResult
from mcp_bridge.isolation.order import too_large
from mcp_bridge.isolation.process import Worker
from mcp_bridge.isolation.words import (
    Json,
    from_answer,
    from_error,
    from_result,
    to_error,
    to_needs,
    to_question,
    to_result,
)
from mcp_bridge.wire.values import plain, plain_mapping

logger = logging.getLogger("mcp_bridge.isolation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is called, and with which arguments.

    `kind` and `name` identify an entry of the offer. `part` is the argument to complete, or empty. `what` is the word
    for the entry in messages.
    """

    kind: str
    name: str
    part: str
    arguments: Any
    what: str


class Crash(Exception):
    """The worker has ended during a call, or cannot continue. `how` describes it where the exit status does not."""

    def __init__(self, how: str = "") -> None:
        super().__init__(how)
        self.how = how


async def converse(
    worker: Worker, request: Request, ctx: CallContext, cpu: float | None
) -> ToolResult | NeedsInput | Exception:
    """Run a call in a worker and return its result, or the exception that the handler raised.

    Raises:
        Crash: the worker has ended, or has sent what cannot be read.
        ResultTooLarge: the result is longer than a line may be.
    """
    messages = await worker.begin({**_request(request), "cpu": cpu, "context": _context(ctx)})
    result: Json | None = None
    async with messages, anyio.create_task_group() as tasks:
        async for message in messages:
            event = message["say"]
            if event in ("result", "too long"):
                result = message
                break
            if event == "ask":
                tasks.start_soon(_answer, worker, message, ctx)
            else:
                await _tell(event, message, ctx)
        tasks.cancel_scope.cancel()
    if result is None:
        raise Crash
    return _outcome(worker, result, request)


def _outcome(worker: Worker, message: Json, request: Request) -> ToolResult | NeedsInput | Exception:
    if message["say"] == "too long":
        worker.kill()
        raise too_large()
    if "crash" in message:
        raise Crash(str(message["crash"]))
    try:
        if "needs" in message:
            return to_needs(message["needs"])
        if "unreadable" in message:
            problem = f"$: {message['unreadable']}"
            return InvalidOutput([problem], tool=request.name, output=None, kind=request.what)
        if "error" in message:
            return to_error(message["error"], str(message.get("notes", "")))
        return to_result(message["result"])
    except Exception as problem:  # the tool controls its process, which may send anything
        raise Crash(f"sent a result that cannot be read ({type(problem).__name__})") from problem


def _request(request: Request) -> Json:
    return {
        "kind": request.kind,
        "name": request.name,
        "part": request.part,
        "arguments": request.arguments,
    }


def _context(ctx: CallContext) -> Json:
    return {
        "protocol_version": ctx.protocol_version,
        "principal": ctx.principal,
        "session": ctx.session,
        "request_id": ctx.request_id,
        "meta": plain_mapping(ctx.meta),
        "capabilities": plain_mapping(ctx.capabilities),
        "answers": {key: from_answer(answer) for key, answer in ctx.answers.items()},
        "state": plain(ctx.state),
        "left": _left(ctx),
    }


def _left(ctx: CallContext) -> float | None:
    """Return the seconds until the call has to end."""
    return None if ctx.deadline is None else ctx.deadline - anyio.current_time()


async def _tell(event: Any, message: Json, ctx: CallContext) -> None:
    """Pass a notification of the call on to the client; an invalid one is dropped."""
    try:
        if event == "progress":
            await ctx.progress(float(message["progress"]), message["total"], message["message"])
        elif event == "message":
            await ctx.log(message["level"], message["data"], message["logger"])
        elif event == "close stream":
            await ctx.close_stream()
    except Exception as error:
        logger.warning("a notification of a worker is dropped: %s: %s", type(error).__name__, error)


async def _answer(worker: Worker, message: Json, ctx: CallContext) -> None:
    """Respond to a request of the call; with an error if it fails."""
    try:
        answer = {"answer": await _asked(message.get("what"), message, ctx), "left": _left(ctx)}
    except Exception as error:
        answer = {"error": from_error(error), "left": _left(ctx)}
    await worker.reply(message.get("ask"), answer)


async def _asked(what: Any, message: Json, ctx: CallContext) -> Any:
    if what == "put":
        questions = {key: to_question(one) for key, one in message["questions"].items()}
        answers: Mapping[str, Any] = await ctx.put(questions)
        return {key: from_answer(answer) for key, answer in answers.items()}
    if what == "invoke":
        return from_result(await ctx.invoke(message["name"], message["arguments"]))
    if what == "tools":
        names = [item.name for item in fields(ToolEntry) if item.name != "handler"]
        return [{name: plain(getattr(entry, name)) for name in names} for entry in ctx.tools()]
    raise ValueError(f"a call cannot ask for '{what}'")
