"""The session of one client with the calls in flight, and the hooks for these calls."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import anyio

from mcp_bridge._integrations.amplifier.events import PROMPT_SUBMIT, TOOL_PRE
from mcp_bridge._integrations.amplifier.hook_middleware import SessionHooks
from mcp_bridge._integrations.amplifier.models import HookResult
from mcp_bridge._integrations.amplifier.mount_plan import MountPlan
from mcp_bridge._integrations.amplifier.session import ModuleSession

AGENT_KEYS = "agent/"
"""The prefix of the keys of sessions that belong to conversations with an agent."""


class ClientSession:
    """A session with the number of its calls in flight. After `close`, it ends as soon as no call uses it.

    Attributes:
        key: The key of a session for a single call; empty for any other session.
        owner: The client against whose share of sessions it counts.
        ready: Is set when all modules are mounted, or when the session could not start.
        has_started: Whether all modules were mounted.
        last_used: When the last call ended, on the clock of the event loop.
    """

    __slots__ = (
        "__weakref__", "_closed", "_is_closing", "calls", "has_started", "key", "last_used", "owner", "ready",
        "session",
    )  # fmt: skip

    def __init__(self, session: ModuleSession, key: str = "") -> None:
        self.session = session
        self.key = key
        self.owner: str | None = None
        self.ready = anyio.Event()
        self.has_started = False
        self.calls = 0
        self.last_used = anyio.current_time()
        self._is_closing = False
        self._closed = anyio.Event()

    def close(self) -> None:
        """End the session once no call is in flight."""
        self._is_closing = True
        if not self.calls:
            self._closed.set()

    def release(self) -> None:
        self.calls -= 1
        self.last_used = anyio.current_time()
        if self._is_closing:
            self.close()

    async def run(self, plan: MountPlan) -> None:
        """Run the session in one task, because modules must exit context managers in the task that entered them."""
        try:
            await self.session.begin(plan)
            self.has_started = True
            self.ready.set()
            await self._closed.wait()
        finally:
            # Calls may wait for a session that could not be mounted.
            self.ready.set()
            with anyio.CancelScope(shield=True):
                await self.session.end()

    @property
    def hooks(self) -> SessionHooks:
        """The session's hooks, or hooks that deny everything while a hook module is missing."""
        missing = self.session.missing_hooks
        return DenyingHooks(missing) if missing else self.session.hooks

    @property
    def has_no_hooks(self) -> bool:
        """Whether the session has started, and no module has registered a handler."""
        return self.has_started and not self.session.hooks.list_handlers()


class DenyingHooks:
    """Denies every call and every prompt, because the hooks of `modules` are missing and could have denied them."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._modules = modules

    def has_handlers(self, event: str) -> bool:
        return event in {TOOL_PRE, PROMPT_SUBMIT}

    async def collect_decision(self, event: str, data: dict[str, Any]) -> HookResult:
        modules = ", ".join(f"'{module}'" for module in self._modules)
        return HookResult(action="deny", reason=f"the hooks of {modules} are not in place, so every call is denied")


def get_session_id(key: str) -> str:
    """Return the id of the session of a conversation.

    Each process derives the same one, so modules that store data by it find the data again. It does not reveal the key,
    and is safe in the name of a file.
    """
    return hashlib.sha256(key.encode()).hexdigest()[:32]
