"""One call in a worker, as the bridge sees it: `run_worker_call` sends the call, and serves it until its result.

While the call runs, the worker sends notifications, which go to the client, and requests: questions, calls to other
tools, and access to the state of the session. NestedRuns has the calls of agents to tools in the same worker.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream

from mcp_bridge._contracts.errors import Denied, InvalidOutput, Overloaded
from mcp_bridge._contracts.handlers import NeedsInput
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolEntry, ToolResult
from mcp_bridge._isolation.codec import (
    Json,
    decode_error,
    decode_needs,
    decode_question,
    decode_result,
    encode_answer,
    encode_context,
    encode_error,
    encode_result,
    get_time_left,
)
from mcp_bridge._isolation.nested_runs import NestedRuns, PublishTool, reject_tool
from mcp_bridge._isolation.options import IsolationOptions
from mcp_bridge._isolation.order import make_size_error
from mcp_bridge._isolation.process import WorkerProcess
from mcp_bridge._protocol.wire.outcomes import to_error_result
from mcp_bridge._protocol.wire.values import to_plain

logger = logging.getLogger("mcp_bridge.isolation")

MAX_REQUESTS = 100
"""The maximum number of questions, and calls to other tools, that a call in a worker can have at once."""
_LAST_EVENTS = ("result", "too long")
"""The values of `say` in the last message of a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCall:
    """A call to an entry in a worker.

    Attributes:
        kind: The kind of the entry in the offer.
        name: The name of the entry in the offer.
        argument: The argument to complete, or an empty text for a call of the entry itself.
        arguments: The arguments of the call.
        label: The word for the kind of the entry in messages to users.
        publish_tool: Returns the published entry of a tool that the worker wants to call. Raises CallError.
        source: The name of the entry's source.
        affinity: The name of the argument that selects the worker (`ToolEntry.affinity`).
    """

    kind: str
    name: str
    argument: str
    arguments: Any
    label: str
    publish_tool: PublishTool = reject_tool
    source: str = ""
    affinity: str = ""


class WorkerCrash(Exception):
    """The worker has ended during a call, or cannot continue. If `reason` is empty, its exit status is the reason."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


async def run_worker_call(
    worker: WorkerProcess, request: WorkerCall, ctx: RunningCall, isolation: IsolationOptions
) -> ToolResult | NeedsInput | Exception:
    """Run a call in a worker. Return its result, or the exception the handler has raised.

    Raises:
        WorkerCrash: the worker has ended, or has sent a result that cannot be read.
        ResultTooLarge: the result is longer than a line may be.
    """
    order = {"kind": request.kind, "name": request.name, "argument": request.argument, "arguments": request.arguments}
    messages = worker.start_call({**order, "context": encode_context(ctx)})
    async with messages:
        message = await anext(messages, None)
        if message is not None and message["say"] not in _LAST_EVENTS:
            message = await _serve_until_result(worker, request, ctx, isolation, message, messages)
    if message is None:
        raise WorkerCrash
    return _decode_outcome(worker, message, request)


async def _serve_until_result(
    worker: WorkerProcess,
    request: WorkerCall,
    ctx: RunningCall,
    isolation: IsolationOptions,
    message: Json,
    messages: MemoryObjectReceiveStream[Json],
) -> Json | None:
    """Handle the messages of a call, and return the one with its result, or None if the worker ends before.

    Most calls send only a result. They do not reach this function, so they need no task group.
    """
    runs = NestedRuns(ctx, request.publish_tool)
    requests = _WorkerRequests(worker, runs, isolation, request.source)
    current: Json | None = message
    async with runs, anyio.create_task_group() as tasks:
        runs.tasks = tasks
        while current is not None and current["say"] not in _LAST_EVENTS:
            event = current["say"]
            if event == "ask":
                await requests.start_request(current, tasks)
            else:
                await _forward_notification(event, current, ctx)
            current = await anext(messages, None)
        tasks.cancel_scope.cancel()
    return current


def _decode_outcome(worker: WorkerProcess, message: Json, request: WorkerCall) -> ToolResult | NeedsInput | Exception:
    """Return the result, or the exception of the handler, in the last message of a call."""
    if message["say"] == "too long":
        # An oversized line may not have been the result, so the call may still run.
        worker.kill()
        raise make_size_error()
    if "crash" in message:
        raise WorkerCrash(str(message["crash"]))
    try:
        if "needs" in message:
            return decode_needs(message["needs"])
        if "unreadable" in message:
            problem = f"$: {message['unreadable']}"
            return InvalidOutput([problem], tool=request.name, output=None, kind=request.label)
        if "error" in message:
            return decode_error(message["error"], str(message.get("notes", "")))
        return decode_result(message["result"])
    except Exception as problem:
        # The tool controls its process, which may send anything.
        raise WorkerCrash(f"sent a result that cannot be read ({type(problem).__name__})") from problem


async def _forward_notification(event: Any, message: Json, ctx: RunningCall) -> None:
    """Pass a notification of the call on to the client. An invalid one is dropped."""
    try:
        if event == "progress":
            await ctx.report_progress(float(message["progress"]), message["total"], message["message"])
        elif event == "message":
            await ctx.log(message["level"], message["data"], message["logger"])
        elif event == "close stream":
            await ctx.close_stream()
    except Exception as error:
        logger.warning("a notification of a worker is dropped: %s: %s", type(error).__name__, error)


class _WorkerRequests:
    """Handles the requests of a call in a worker, at most MAX_REQUESTS at once."""

    def __init__(self, worker: WorkerProcess, runs: NestedRuns, isolation: IsolationOptions, source: str) -> None:
        self._worker = worker
        self._runs = runs
        self._isolation = isolation
        self._source = source
        self._open = 0

    async def start_request(self, message: Json, tasks: TaskGroup) -> None:
        """Start to handle a request, or reject it if there are too many."""
        questions = message.get("questions")
        count = 1
        if isinstance(questions, dict) and questions:
            count = len(questions)
        if self._open + count > MAX_REQUESTS:
            text = f"A call can have at most {MAX_REQUESTS} questions and calls to other tools at once."
            await self._send_reply(message, {"error": encode_error(Overloaded(text))})
        else:
            self._open += count
            tasks.start_soon(self._run_to_reply, message, count)

    async def _run_to_reply(self, message: Json, count: int) -> None:
        try:
            reply = {"answer": await self._run_request(message.get("what"), message)}
        except Exception as error:
            reply = {"error": encode_error(error)}
        await self._send_reply(message, reply)
        # A request counts until its reply is sent. Otherwise, a worker that does not read could fill the memory.
        self._open -= count

    async def _send_reply(self, message: Json, reply: Json) -> None:
        time_left = get_time_left(self._runs.get_context(message.get("within")))
        await self._worker.reply(message.get("ask"), {**reply, "left": time_left})

    async def _run_request(self, what: Any, message: Json) -> Any:
        ctx = self._runs.get_context(message.get("within"))
        if what == "put":
            questions = {key: decode_question(question) for key, question in message["questions"].items()}
            answers: Mapping[str, Any] = await ctx.put(questions)
            return {key: encode_answer(answer) for key, answer in answers.items()}
        if what == "invoke":
            name = str(message["name"])
            if not self._isolation.can_invoke(name):
                return _make_denied_result(f"'{name}' cannot be called")
            return encode_result(await ctx.invoke(name, message["arguments"]))
        if what == "read":
            uri = str(message["uri"])
            if not self._isolation.can_read(uri):
                return _make_denied_result(f"'{uri}' cannot be read")
            return encode_result(await ctx.fetch_resource(uri))
        # The prefix keeps a worker away from the state of other sources and of tools without isolation.
        if what == "read state":
            return await ctx.get_state(f"isolated/{self._source}/{message['key']}")
        if what == "write state":
            return await ctx.set_state(f"isolated/{self._source}/{message['key']}", json.loads(message["value"]))
        if what == "delete state":
            return await ctx.delete_state(f"isolated/{self._source}/{message['key']}")
        if what == "begin":
            return await self._runs.begin(message)
        if what == "continue":
            return await self._runs.proceed(message)
        if what == "tools":
            return self._list_tools(ctx)
        raise ValueError(f"a call cannot ask for '{what}'")

    def _list_tools(self, ctx: RunningCall) -> list[Json]:
        names = [item.name for item in fields(ToolEntry) if item.name != "handler"]
        tools = []
        for entry in ctx.tools():
            if self._isolation.can_invoke(entry.name):
                tools.append({name: to_plain(getattr(entry, name)) for name in names})
        return tools


def _make_denied_result(problem: str) -> Json:
    text = f"{problem} from this isolated tool. The setting isolation.invokes allows it."
    return encode_result(to_error_result(Denied(text)))
