"""Amplifier's tools as entries of the bridge."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from anyio import from_thread

from mcp_bridge.amplifier.results import is_second_form, to_result
from mcp_bridge.amplifier.session import Session
from mcp_bridge.amplifier.source.sessions import Sessions
from mcp_bridge.contracts.callables import is_async
from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import ToolUnavailable
from mcp_bridge.contracts.tool import ToolEntry
from mcp_bridge.runtime.third_party import settled

CALL_ID = "_tool_call_id"
"""Where the contract's second form looks for the id of the call."""
_ANYTHING: dict[str, Any] = {"type": "object"}


def entry_of(calls: Calls) -> ToolEntry:
    """A mounted tool as an entry, by the name that it gives itself."""
    tool = calls.tool
    name, schema = str(getattr(tool, "name", "") or calls.key), schema_of(tool)
    calls.wants_id = calls.wants_id or _asks_for_id(schema)
    return ToolEntry(name, str(getattr(tool, "description", "") or ""), calls.handler, schema)


def schema_of(tool: Any) -> dict[str, Any]:
    """What a tool says about its arguments: `input_schema`, `get_schema()`, or nothing, which is any object."""
    schema = getattr(tool, "input_schema", None)
    if schema is None and callable(getattr(tool, "get_schema", None)):
        schema = tool.get_schema()
    return dict(schema) if isinstance(schema, Mapping) and schema else dict(_ANYTHING)


class Calls:
    """Calls of one tool, which each session has its own of, mounted under `key`. `tool` is that of the first session.

    The call's id goes, after validation, only into a tool that `wants_id`: its schema asks for it, or the settings, or
    it has answered before in the form that carries it. Others may take every key for an argument. What a tool raises
    is the pipeline's to catch.
    """

    def __init__(self, key: str, tool: Any, sessions: Sessions) -> None:
        self.key = key
        self.tool = tool
        self._sessions = sessions
        self.wants_id = False

    @property
    def handler(self) -> Callable[[Any, CallContext], Any]:
        """What carries out one call: a synchronous `execute` in a thread, where it holds up nobody.

        That of a tool in another language answers with a future of the loop that it is called in.
        """
        execute = self.tool.execute
        return self._execute if is_async(execute) or inspect.isbuiltin(execute) else self._execute_in_thread

    async def _execute(self, data: Any, ctx: CallContext) -> Any:
        async with self._sessions.lent(ctx) as session:  # in a worker, no hooks have it lent already
            return self._read(await settled(self._of(session).execute(self._given(data, ctx))), ctx)

    def _execute_in_thread(self, data: Any, ctx: CallContext) -> Any:
        session = self._sessions.here(ctx) or from_thread.run(self._sessions.of, ctx)
        answer = self._of(session).execute(self._given(data, ctx))
        return self._awaited(answer, ctx) if inspect.isawaitable(answer) else self._read(answer, ctx)

    async def _awaited(self, answer: Awaitable[Any], ctx: CallContext) -> Any:
        return self._read(await answer, ctx)

    def _of(self, session: Session) -> Any:
        tool = session.tool(self.key)
        if tool is None:
            raise ToolUnavailable(f"The tool mounted as '{self.key}' is not mounted in this session.")
        return tool

    def _given(self, data: Any, ctx: CallContext) -> dict[str, Any]:
        given = dict(data or {})
        if self.wants_id:
            given.setdefault(CALL_ID, ctx.request_id)
        return given

    def _read(self, answer: Any, ctx: CallContext) -> Any:
        self.wants_id = self.wants_id or is_second_form(answer)
        return to_result(answer, ctx.request_id)


def _asks_for_id(schema: Mapping[str, Any]) -> bool:
    properties = schema.get("properties")
    return isinstance(properties, Mapping) and CALL_ID in properties
