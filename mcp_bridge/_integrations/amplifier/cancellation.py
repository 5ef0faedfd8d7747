"""The token through which a session asks its modules to stop, with the API of `amplifier_core.cancellation`.

A token goes from `none` to `graceful`, which lets running tools finish, or to `immediate`. It never goes back, except
by `reset`. The session of a subagent registers its token as a child, so it is cancelled together with its parent. The
token only stores the request: loops and tools read it, or register callbacks with `on_cancel`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from mcp_bridge._integrations.amplifier.errors import log_errors
from mcp_bridge._runtime.third_party import resolve_awaitable


class CancellationState(Enum):
    """The states of a token, in order of urgency.

    >>> [state.value for state in CancellationState]
    ['none', 'graceful', 'immediate']
    """

    NONE = "none"
    GRACEFUL = "graceful"
    IMMEDIATE = "immediate"


class CancellationToken:
    """A request to stop, set by the session and read by its modules. It also lists the running tools.

    >>> token = CancellationToken()
    >>> token.request_graceful()
    True
    >>> token.state
    'graceful'
    """

    def __init__(self) -> None:
        self._state = CancellationState.NONE
        self._running: dict[str, str] = {}
        self._children: list[CancellationToken] = []
        self._callbacks: list[Callable[[], Any]] = []

    @property
    def state(self) -> str:
        return self._state.value

    @property
    def is_cancelled(self) -> bool:
        return self._state is not CancellationState.NONE

    @property
    def is_graceful(self) -> bool:
        """Whether the session stops when the running tools have finished."""
        return self._state is CancellationState.GRACEFUL

    @property
    def is_immediate(self) -> bool:
        return self._state is CancellationState.IMMEDIATE

    @property
    def running_tools(self) -> set[str]:
        """The ids of the running calls."""
        return set(self._running)

    @property
    def running_tool_names(self) -> list[str]:
        """The tools of the running calls."""
        return list(self._running.values())

    def request_cancellation(self) -> None:
        self.request_graceful()

    def request_graceful(self) -> bool:
        """Stop when the running tools have finished. Returns False if the session is already stopping."""
        return self._escalate(CancellationState.GRACEFUL)

    def request_immediate(self) -> bool:
        """Stop now. Returns False if this was requested before."""
        return self._escalate(CancellationState.IMMEDIATE)

    def reset(self) -> None:
        """Withdraw the request, and forget the running tools."""
        self._state = CancellationState.NONE
        self._running.clear()

    def register_tool_start(self, tool_call_id: str, tool_name: str) -> None:
        self._running[tool_call_id] = tool_name

    def register_tool_complete(self, tool_call_id: str) -> None:
        self._running.pop(tool_call_id, None)

    def register_child(self, child: CancellationToken) -> None:
        """Stop a child session together with this one, also if this one is already stopping."""
        self._children.append(child)
        child._escalate(self._state)

    def unregister_child(self, child: CancellationToken) -> None:
        if child in self._children:
            self._children.remove(child)

    def on_cancel(self, callback: Callable[[], Any]) -> None:
        """Register a sync or async function for `trigger_callbacks`."""
        self._callbacks.append(callback)

    async def trigger_callbacks(self) -> None:
        """Call every registered function; errors are logged."""
        for callback in list(self._callbacks):
            with log_errors("a cancellation callback failed"):
                await resolve_awaitable(callback())

    def _escalate(self, state: CancellationState) -> bool:
        order = list(CancellationState)
        if order.index(state) <= order.index(self._state):
            return False
        self._state = state
        for child in self._children:
            child._escalate(state)
        return True
