"""NestedRuns: calls of a worker to tools in the same worker, such as those of an agent, in the pipeline of the bridge.

The worker requests a call ("begin"). In the bridge, the call passes the pipeline, and its handler (`run_in_worker`)
sends an order to run the tool, with the arguments after all policies, as the reply. The worker runs the tool, and
reports the outcome ("continue"). The reply is the final result, or another order, for example of the policy `retry`.
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
"""The maximum number of nested calls that a call in a worker can have at once."""
PublishTool = Callable[[RunningCall, ToolEntry], ToolEntry]
"""Returns the published entry of a tool that a worker describes. Raises CallError if the worker may not call it."""


def reject_tool(ctx: RunningCall, entry: ToolEntry) -> ToolEntry:
    """Reject every tool. This is the default PublishTool."""
    raise Denied(f"Tool '{entry.name}' cannot be called here.")


class NestedRuns:
    """The nested calls of one call in a worker. `tasks` runs them, and must end before this block does."""

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
        number = next(self._numbers)
        schema = message["schema"]
        tool = ToolEntry(str(message["name"]), "", run_in_worker, schema if isinstance(schema, dict) else {})
        entry = self._publish_tool(self._ctx, tool)
        run = self._runs[number] = _NestedRun(number)
        self.tasks.start_soon(run.run_entry, self.get_context(message["within"]), entry, message["arguments"])
        return await self._wait_for_reply(number)

    async def proceed(self, message: Json) -> Json:
        """Continue a call with the outcome of its run. Raises KeyError for an unknown run."""
        number = message["run"]
        # The nested call may have ended, because its time limit has passed.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._runs[number].outcomes.send_nowait(message)
        return await self._wait_for_reply(number)

    def get_context(self, number: Any) -> RunningCall:
        """Return the context of the nested call with this number, or of the call itself."""
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
    """One nested call.

    Attributes:
        replies: The orders to run the tool, and then the final result, for the worker.
        outcomes: Gets the outcomes of runs from the worker.
        ctx: The context of the nested call, or None before its first run.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._reply_sender: MemoryObjectSendStream[Json]
        self.replies: MemoryObjectReceiveStream[Json]
        self.outcomes: MemoryObjectSendStream[Json]
        self._outcome_receiver: MemoryObjectReceiveStream[Json]
        self._reply_sender, self.replies = anyio.create_memory_object_stream[Json](1)
        self.outcomes, self._outcome_receiver = anyio.create_memory_object_stream[Json](1)
        self.ctx: RunningCall | None = None

    async def run_entry(self, ctx: RunningCall, entry: ToolEntry, arguments: Any) -> None:
        """Call the entry in the pipeline, and send the final result."""
        _RUN.set(self)
        try:
            reply = {"result": encode_result(await ctx.invoke_entry(entry, arguments))}
        except (CallError, RuntimeError) as error:
            reply = {"error": encode_error(error)}
        self._outcome_receiver.close()
        await self._reply_sender.send(reply)

    def close(self) -> None:
        for stream in (self._reply_sender, self.replies, self.outcomes, self._outcome_receiver):
            stream.close()

    async def order_run(self, data: Any, ctx: RunningCall) -> Any:
        """Let the worker run the tool once, and return the result. Raises the error of the tool."""
        self.ctx = ctx
        await self._reply_sender.send({"run": self._number, "arguments": data, "context": encode_context(ctx)})
        outcome = await self._outcome_receiver.receive()
        if "error" in outcome:
            raise decode_error(outcome["error"], str(outcome.get("notes", "")))
        return decode_result(outcome["result"])


_RUN: ContextVar[_NestedRun] = ContextVar("nested_run")
"""The nested call of the current task, by which its handler finds it."""


async def run_in_worker(data: Any, ctx: RunningCall) -> Any:
    """Run a tool in its worker. This is the handler of all tools in nested calls."""
    return await _RUN.get().order_run(data, ctx)
