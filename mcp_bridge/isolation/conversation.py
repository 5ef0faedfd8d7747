"""One call of a worker, from the bridge's side: the call goes out, what it asks is answered, its result comes back."""

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
    """Which of a source's things is called (`kind` as an offer has it), and with what; `what` is a word for people."""

    kind: str
    name: str
    part: str
    arguments: Any
    what: str


class Crash(Exception):
    """The worker has ended in the middle of a call, or cannot go on; `how`, where it is not for the system to say."""

    def __init__(self, how: str = "") -> None:
        super().__init__(how)
        self.how = how


async def converse(
    worker: Worker, request: Request, ctx: CallContext, cpu: float | None
) -> ToolResult | NeedsInput | Exception:
    """Have a worker carry out a call; its answer, or what it raised, and the worker is done with it.

    Raises Crash when the worker ended instead, ResultTooLarge.
    """
    heard = await worker.begin({**_request(request), "cpu": cpu, "context": _context(ctx)})
    result: Json | None = None
    async with heard, anyio.create_task_group() as tasks:
        async for message in heard:
            said = message["say"]
            if said in ("result", "too long"):
                result = message
                break
            if said == "ask":
                tasks.start_soon(_answer, worker, message, ctx)
            else:
                await _tell(said, message, ctx)
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
    except Exception as problem:  # its process is the tool's: it may say anything
        raise Crash(f"has answered what nobody understands ({type(problem).__name__})") from problem


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
    """Seconds until the call has to end."""
    return None if ctx.deadline is None else ctx.deadline - anyio.current_time()


async def _tell(said: Any, message: Json, ctx: CallContext) -> None:
    """Pass on what the call has to say; what cannot be is left out."""
    try:
        if said == "progress":
            await ctx.progress(float(message["progress"]), message["total"], message["message"])
        elif said == "message":
            await ctx.log(message["level"], message["data"], message["logger"])
        elif said == "close stream":
            await ctx.close_stream()
    except Exception as error:
        logger.warning("a notice of a worker is left out: %s: %s", type(error).__name__, error)


async def _answer(worker: Worker, message: Json, ctx: CallContext) -> None:
    """Answer what the call asks, with an error where that fails."""
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
        shown = [item.name for item in fields(ToolEntry) if item.name != "handler"]
        return [{name: plain(getattr(entry, name)) for name in shown} for entry in ctx.tools()]
    raise ValueError(f"a call cannot ask for '{what}'")
