"""Publishes a tool of a module as an entry of the bridge, and runs its calls in the session of the caller."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from anyio import from_thread

from mcp_bridge._contracts.errors import ToolUnavailable
from mcp_bridge._contracts.handlers import is_async
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._integrations.amplifier.inspection import CALL_ID, read_schema, reads_call_id
from mcp_bridge._integrations.amplifier.results import is_second_form, to_result
from mcp_bridge._integrations.amplifier.running_call import TOOL_CALL, bind_value
from mcp_bridge._integrations.amplifier.session import ModuleSession
from mcp_bridge._integrations.amplifier.sessions.module_sessions import ModuleSessions, require_session
from mcp_bridge._runtime.third_party import resolve_awaitable


class ToolHandler:
    """Calls the tool under `key` in the caller's session. `tool` is the instance in the first session.

    The id of the call is added to the arguments after validation, and only if `wants_id`: the tool's schema or its code
    requires it, or a result of the tool had an id. Another tool could take the id for an argument.
    """

    def __init__(self, key: str, tool: Any, sessions: ModuleSessions) -> None:
        self.key = key
        self.tool = tool
        self._sessions = sessions
        self.wants_id = reads_call_id(tool)

    def build_entry(self) -> ToolEntry:
        """Return the entry of the tool. Raises TypeError if its name is not text, and the errors of its properties."""
        tool = self.tool
        name, schema = getattr(tool, "name", "") or self.key, read_schema(tool)
        if not isinstance(name, str):
            raise TypeError(f"its name is not text, but {type(name).__name__}")
        if not isinstance(schema, Mapping) or not schema:
            schema = {"type": "object"}
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and CALL_ID in properties:
            self.wants_id = True
        # A synchronous `execute` runs in a thread, but a built-in one returns a future of the loop that calls it.
        on_loop = is_async(tool.execute) or inspect.isbuiltin(tool.execute)
        run: Callable[[Any, RunningCall], Any] = self._run_async if on_loop else self._run_in_thread
        return ToolEntry(name, str(getattr(tool, "description", "") or ""), run, dict(schema))

    async def _run_async(self, data: Any, ctx: RunningCall) -> Any:
        # The hooks of the call already hold a lease, except in a worker.
        async with self._sessions.lease(ctx) as session:
            # Do not use `bind_value` here: its generator would take longer than the rest of this method.
            token = TOOL_CALL.set(ctx)
            try:
                result = await resolve_awaitable(self._get_tool(session).execute(self._build_arguments(data, ctx)))
            finally:
                TOOL_CALL.reset(token)
            return self._convert_result(result, ctx)

    def _run_in_thread(self, data: Any, ctx: RunningCall) -> Any:
        session = self._sessions.find(ctx)
        if session is not None:
            return self._execute_tool(session, data, ctx)
        # The session has not started, so no hooks hold a lease.
        client_session = from_thread.run(self._sessions.acquire, ctx)
        try:
            result = self._execute_tool(require_session(client_session), data, ctx)
            return from_thread.run(resolve_awaitable, result) if inspect.isawaitable(result) else result
        finally:
            if client_session is not None:
                from_thread.run_sync(self._sessions.release_session, client_session)

    def _execute_tool(self, session: ModuleSession, data: Any, ctx: RunningCall) -> Any:
        with bind_value(TOOL_CALL, ctx):
            result = self._get_tool(session).execute(self._build_arguments(data, ctx))
        return self._wait_for_result(result, ctx) if inspect.isawaitable(result) else self._convert_result(result, ctx)

    async def _wait_for_result(self, result: Awaitable[Any], ctx: RunningCall) -> Any:
        with bind_value(TOOL_CALL, ctx):
            return self._convert_result(await result, ctx)

    def _get_tool(self, session: ModuleSession) -> Any:
        tool = session.coordinator.get("tools", self.key)
        if tool is None:
            raise ToolUnavailable(f"The tool mounted as '{self.key}' is not mounted in this session.")
        return tool

    def _build_arguments(self, data: Any, ctx: RunningCall) -> Any:
        if not isinstance(data, Mapping | None):
            # The schema of this tool does not describe an object.
            return data
        arguments = dict(data or {})
        if self.wants_id:
            arguments.setdefault(CALL_ID, ctx.request_id)
        return arguments

    def _convert_result(self, result: Any, ctx: RunningCall) -> Any:
        if is_second_form(result):
            self.wants_id = True
        return to_result(result, ctx.request_id)
