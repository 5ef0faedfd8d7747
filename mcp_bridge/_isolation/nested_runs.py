"""Nested calls to tools in a worker, such as those of an agent, through the pipeline of the bridge.

The worker announces each call ("begin") and reports the outcome of each run ("continue"). Each reply is either an order
to run the tool, with the arguments after all policies, or the final result.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from itertools import count
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from mcp_bridge._contracts.errors import CallError, Denied, Overloaded
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._isolation.codec import Json, decode_error, decode_result, encode_context, encode_error, encode_result

MAX_RUNS = 100
"""Runs that a call in a worker can have at once."""
PublishTool = Callable[[RunningCall, ToolEntry], ToolEntry]
"""Returns a tool that the worker describes as it is published. Raises CallError for one that it may not call."""


def reject_tool(ctx: RunningCall, entry: ToolEntry) -> ToolEntry:
    """Reject every tool: the default."""
    raise Denied(f"Tool '{entry.name}' cannot be called here.")


class NestedRuns:
    """The nested runs of one call in a worker. `tasks` owns them, and must end before the block."""

    tasks: TaskGroup

    def __init__(self, ctx: RunningCall, publish_tool: PublishTool) -> None:
        self._ctx = ctx
        self._publish_tool = publish_tool
        self._numbers = count(1)
        self._runs: dict[int, _NestedRun] = {}

    async def begin(self, message: Json) -> Json:
        """Start a call to a tool of the worker. Raises Overloaded, and KeyError or TypeError for an invalid message."""
        if len(self._runs) >= MAX_RUNS:
            raise Overloaded(f"A call can run at most {MAX_RUNS} tools at once.")
        number, schema = next(self._numbers), message["schema"]
        tool = ToolEntry(str(message["name"]), "", run_in_worker, schema if isinstance(schema, dict) else {})
        entry = self._publish_tool(self._ctx, tool)
        run = self._runs[number] = _NestedRun(number)
        self.tasks.start_soon(run.run_entry, self.get_context(message["within"]), entry, message["arguments"])
        return await self._wait_for_reply(number)

    async def proceed(self, message: Json) -> Json:
        """Continue a call with the outcome of its run. Raises KeyError for an unknown run."""
        number = message["run"]
        # The call may be over, because its time limit has passed.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._runs[number].outcomes.send_nowait(message)
        return await self._wait_for_reply(number)

    def get_context(self, number: Any) -> RunningCall:
        """Return the context of the nested run with this number, or of the call."""
        if isinstance(number, int) and number in self._runs:
            return self._runs[number].ctx or self._ctx
        return self._ctx

    async def _wait_for_reply(self, number: int) -> Json:
        reply = await self._runs[number].replies.receive()
        if "run" not in reply:
            self._runs.pop(number).close()
        return reply

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        for run in self._runs.values():
            run.close()


class _NestedRun:
    """One call to a tool of the worker."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._send: MemoryObjectSendStream[Json]
        self.replies: MemoryObjectReceiveStream[Json]
        self.outcomes: MemoryObjectSendStream[Json]
        self._reported: MemoryObjectReceiveStream[Json]
        self._send, self.replies = anyio.create_memory_object_stream[Json](1)
        self.outcomes, self._reported = anyio.create_memory_object_stream[Json](1)
        self.ctx: RunningCall | None = None

    async def run_entry(self, ctx: RunningCall, entry: ToolEntry, arguments: Any) -> None:
        _RUN.set(self)
        try:
            reply = {"result": encode_result(await ctx.invoke_entry(entry, arguments))}
        except (CallError, RuntimeError) as error:
            reply = {"error": encode_error(error)}
        self._reported.close()
        await self._send.send(reply)

    def close(self) -> None:
        for stream in (self._send, self.replies, self.outcomes, self._reported):
            stream.close()

    async def order_run(self, data: Any, ctx: RunningCall) -> Any:
        self.ctx = ctx
        await self._send.send({"run": self._number, "arguments": data, "context": encode_context(ctx)})
        outcome = await self._reported.receive()
        if "error" in outcome:
            raise decode_error(outcome["error"], str(outcome.get("notes", "")))
        return decode_result(outcome["result"])


_RUN: ContextVar[_NestedRun] = ContextVar("nested_run")


async def run_in_worker(data: Any, ctx: RunningCall) -> Any:
    """Run a tool in its worker. This is the handler of all these tools."""
    return await _RUN.get().order_run(data, ctx)
