"""CancellationToken: how a session tells its modules to stop."""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import Any

from mcp_bridge.runtime.third_party import passes, settled

logger = logging.getLogger("mcp_bridge.amplifier")


class CancellationState(Enum):
    """How urgently."""

    NONE = "none"
    GRACEFUL = "graceful"
    IMMEDIATE = "immediate"


class CancellationToken:
    """Asked by modules, set by the session; tools that run are known to it by their calls' ids."""

    def __init__(self) -> None:
        self._state = CancellationState.NONE
        self._running: dict[str, str] = {}
        self._children: list[CancellationToken] = []
        self._callbacks: list[Callable[[], Any]] = []

    @property
    def state(self) -> str:
        """`none`, `graceful` or `immediate`."""
        return self._state.value

    @property
    def is_cancelled(self) -> bool:
        """Whether to stop at all."""
        return self._state is not CancellationState.NONE

    @property
    def is_graceful(self) -> bool:
        """Whether to stop once the running tools are done."""
        return self._state is CancellationState.GRACEFUL

    @property
    def is_immediate(self) -> bool:
        """Whether to stop now."""
        return self._state is CancellationState.IMMEDIATE

    @property
    def running_tools(self) -> set[str]:
        """The ids of the calls that run."""
        return set(self._running)

    @property
    def running_tool_names(self) -> list[str]:
        """The tools of these calls."""
        return list(self._running.values())

    def request_cancellation(self) -> None:
        """Stop once the running tools are done."""
        self.request_graceful()

    def request_graceful(self) -> bool:
        """Stop once the running tools are done; whether that is new."""
        return self._request(CancellationState.GRACEFUL)

    def request_immediate(self) -> bool:
        """Stop now; whether that is new."""
        return self._request(CancellationState.IMMEDIATE)

    def reset(self) -> None:
        """Go on."""
        self._state = CancellationState.NONE
        self._running.clear()

    def register_tool_start(self, tool_call_id: str, tool_name: str) -> None:
        """A call begins."""
        self._running[tool_call_id] = tool_name

    def register_tool_complete(self, tool_call_id: str) -> None:
        """A call has ended."""
        self._running.pop(tool_call_id, None)

    def register_child(self, child: CancellationToken) -> None:
        """A session below this one is to stop with it, also where this one has been told to stop already."""
        self._children.append(child)
        child._request(self._state)

    def unregister_child(self, child: CancellationToken) -> None:
        """It goes on by itself."""
        if child in self._children:
            self._children.remove(child)

    def on_cancel(self, callback: Callable[[], Any]) -> None:
        """Have this called by `trigger_callbacks`."""
        self._callbacks.append(callback)

    async def trigger_callbacks(self) -> None:
        """Call what is to be called, sync or async; what one of them raises keeps the others from nothing."""
        for callback in list(self._callbacks):
            try:
                await settled(callback())
            except BaseException as error:
                if passes(error):
                    raise
                logger.exception("a callback of a cancelled session failed")

    def _request(self, state: CancellationState) -> bool:
        order = list(CancellationState)
        if order.index(state) <= order.index(self._state):
            return False
        self._state = state
        for child in self._children:
            child._request(state)
        return True
