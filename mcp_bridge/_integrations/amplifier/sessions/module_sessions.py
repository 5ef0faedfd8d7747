"""Sessions: each client gets its own instances of a plan's modules, so no client sees another client's state."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import anyio
from anyio.abc import TaskGroup

from mcp_bridge._contracts.errors import ToolUnavailable
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._integrations.amplifier.governance.hook_middleware import SessionHooks
from mcp_bridge._integrations.amplifier.hooks import HookRegistry
from mcp_bridge._integrations.amplifier.mount_plan import MountPlan
from mcp_bridge._integrations.amplifier.session import ModuleSession
from mcp_bridge._integrations.amplifier.sessions.client_session import (
    AGENT_KEYS,
    ClientSession,
    DenyingHooks,
    get_session_id,
)
from mcp_bridge._integrations.amplifier.sessions.roots import AskRoot, log_fallback
from mcp_bridge._runtime.session_limits import choose_session_to_end, end_idle_sessions, end_with_client, get_owner
from mcp_bridge._runtime.thread_pool import is_abandoned

logger = logging.getLogger("mcp_bridge.amplifier")

T = TypeVar("T")
CreateSession = Callable[[Path | None, str | None], ModuleSession]
WORKING_DIR = "session.working_dir"  # capability (text); without it, modules use the directory of the process


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """Which clients share a session, and when sessions end.

    With `shared`, all clients share one. A session ends after `idle_timeout` seconds without a call. At most `limit`
    exist at once, and at most `conversations` conversations with an agent (see `choose_session_to_end`).
    """

    shared: bool = False
    limit: int = 100
    idle_timeout: float = 1800.0
    conversations: int = 100


class ModuleSessions:
    """The sessions of one plan, by the key of the client's session.

    `create` creates a session without starting it, with a working directory and an id if these are given.
    The first session is started before any client connects, because it determines what is published; the first client
    adopts it. A session ends when its client disconnects, or as `limits` says. With `ask_root`, each client is asked
    once for its working directory; a client that has one gets a session of its own instead of the first.

    A call of a client that cannot be identified (`RunningCall.state_key`) gets a session for itself and its nested
    calls.
    """

    def __init__(self, plan: MountPlan, create: CreateSession, limits: SessionLimits) -> None:
        self._plan = plan
        self._create = create
        self.limits = limits
        self.ask_root: AskRoot | None = None
        self._has_logged_unasked = False
        self._root_locks: dict[str, anyio.Lock] = {}
        self._sessions: dict[str, ClientSession] = {}
        self.first: ClientSession | None = None
        self._first_is_free = False
        self._tasks: TaskGroup | None = None
        self._no_hooks = HookRegistry()
        self._hook_modules = [spec.module for spec in plan.get_section("hooks")]
        self._hooks_without_session: SessionHooks = DenyingHooks(
            self._hook_modules or [spec.module for spec in plan.list_modules()]
        )

    async def start(self, tasks: TaskGroup) -> ModuleSession:
        """Start the first session. Every session runs as a task of this group."""
        self._tasks = tasks
        self.first = ClientSession(self._create(None, None))
        self._first_is_free = True
        tasks.start_soon(self.first.run, self._plan)
        tasks.start_soon(end_idle_sessions, self._sessions, self.limits.idle_timeout, self._end_unless_shared)
        await self.first.ready.wait()
        return self.first.session

    def stop(self) -> None:
        """Accept no more clients. Calls are denied from now on, unless no module has hooks."""
        if not self._hook_modules and (self.first is None or (self._tasks is not None and self.first.has_no_hooks)):
            self._hooks_without_session = HookRegistry()
        self._tasks, self._first_is_free = None, False
        self._sessions.clear()

    @property
    def in_use(self) -> int:
        """How many sessions of clients there are."""
        return len(self._sessions) - len(self._list_conversations())

    @property
    def conversations_in_use(self) -> int | None:
        """How many conversations with the agent there are; None without an agent."""
        return len(self._list_conversations()) if self._plan.orchestrator is not None else None

    def acquire_hooks(self, ctx: RunningCall) -> AbstractAsyncContextManager[SessionHooks]:
        """A context manager for the hooks of the client's session, which does not end inside it."""
        if (self._is_single(ctx) or self._is_foreign(ctx.state_key)) and self._has_no_hooks():
            return nullcontext(self._no_hooks)  # do not mount the modules only to find that
        return SessionLease(self, ctx, self._get_hooks)

    def lease(self, ctx: RunningCall) -> SessionLease[ModuleSession]:
        """A context manager for the client's session, which does not end inside it.

        Raises Overloaded or ToolUnavailable.
        """
        return SessionLease(self, ctx, require_session)

    def find(self, ctx: RunningCall) -> ModuleSession | None:
        """The client's session, or None where it has not started."""
        key = self._get_key(ctx)
        found = self._sessions.get(key)
        is_alone = self._is_single(ctx) or self._is_foreign(key)
        if found is None and self._first_is_free and self.ask_root is None and not is_alone:
            found = self._take_first(key)
            found.owner = get_owner(ctx)
        return found.session if found is not None and found.has_started else None

    def add_session(self, ctx: RunningCall, session: ModuleSession, plan: MountPlan) -> None:
        """Start a session with a plan of its own, for calls in this context. Raises Overloaded and ToolUnavailable."""
        if self._tasks is None:
            raise ToolUnavailable("The modules are no longer mounted.")
        key = ctx.state_key
        self._make_room(key, ctx)
        self._sessions[key] = added = ClientSession(session)
        added.owner = get_owner(ctx)
        self._tasks.start_soon(added.run, plan)
        end_with_client(ctx, self._sessions, key, self._end)

    def end_session(self, key: str) -> None:
        """End the session of a key, if there is one, once no call is in flight."""
        if key in self._sessions:
            self._end(key)

    async def acquire(self, ctx: RunningCall) -> ClientSession | None:
        """The client's session with one call more, started where it has none; None after `stop`.

        Raises Overloaded, or ToolUnavailable where a thread that outlasts its call would start one.
        """
        if self._tasks is None:
            return None
        key = self._get_key(ctx)
        found = self._sessions.get(key)
        if found is None:
            if is_abandoned():  # its conversation may have ended with the call, and nothing would end another
                raise ToolUnavailable("The call has ended.")
            if self.ask_root is None or self._is_single(ctx):
                found = self._add(key, ctx)
                self._log_unasked()
            else:
                found = await self._add_with_root(key, ctx, self.ask_root)
        if found is None:
            return None
        found.calls += 1
        if not found.ready.is_set():
            try:
                await found.ready.wait()
            except BaseException:
                self.release_session(found)
                raise
        if not found.has_started:
            self.release_session(found)
            return None
        return found

    def release_session(self, found: ClientSession) -> None:
        """Count one call fewer. The session of a single call ends with it."""
        found.release()
        if found.key and not found.calls and found.key in self._sessions:
            self._end(found.key)

    def _get_hooks(self, found: ClientSession | None) -> SessionHooks:
        return found.hooks if found is not None else self._hooks_without_session

    def has_session(self, ctx: RunningCall) -> bool:
        """Whether the session of a call exists already."""
        return self.has_key(self._get_key(ctx))

    def has_key(self, key: str) -> bool:
        """Whether there is a session with this key."""
        return key in self._sessions

    def _get_key(self, ctx: RunningCall) -> str:
        key = ctx.state_key
        return key if not self.limits.shared or key.startswith(AGENT_KEYS) else ""

    def _log_unasked(self) -> None:
        """Log once that clients without a session of their own are not asked for their folder."""
        if self.ask_root is not None and not self._has_logged_unasked:
            self._has_logged_unasked = True
            log_fallback("clients that name no session are not asked")

    def _is_single(self, ctx: RunningCall) -> bool:
        """Whether the call has a session for itself."""
        return not self.limits.shared and not ctx.session and ctx.state_key != ""

    def _is_foreign(self, key: str) -> bool:
        """Whether a key is that of a conversation of another source, or one that has ended."""
        return key.startswith(AGENT_KEYS) and key not in self._sessions

    def _has_no_hooks(self) -> bool:
        if self._hook_modules or self.first is None or not self.first.has_started:
            return False
        return not any(self.first.session.hooks.list_handlers().values())  # those of the events log count, too

    async def _add_with_root(self, key: str, ctx: RunningCall, ask_root: AskRoot) -> ClientSession | None:
        """Add a session in the client's own folder. One of its calls asks for it, and the others wait."""
        async with self._root_locks.setdefault(key, anyio.Lock()):
            try:
                folder = await ask_root(ctx) if key not in self._sessions else None
            finally:
                self._root_locks.pop(key, None)
            if self._tasks is None:
                return None
            return self._sessions.get(key) or self._add(key, ctx, folder)

    def _add(self, key: str, ctx: RunningCall, folder: Path | None = None) -> ClientSession:
        self._make_room(key, ctx)
        is_single = self._is_single(ctx)
        reuse_first = self._first_is_free and folder is None and not is_single and not key.startswith(AGENT_KEYS)
        if reuse_first:
            added = self._take_first(key)
        else:
            session_id = get_session_id(key) if key.startswith(AGENT_KEYS) else None
            added = ClientSession(self._create(folder, session_id), key if is_single else "")
        added.owner = get_owner(ctx)
        if key not in self._sessions:
            self._sessions[key] = added
            assert self._tasks is not None
            self._tasks.start_soon(added.run, self._plan)
        if not self.limits.shared or key.startswith(AGENT_KEYS):
            end_with_client(ctx, self._sessions, key, self._end)
        return added

    def _take_first(self, key: str) -> ClientSession:
        assert self.first is not None
        self._first_is_free = False
        self._sessions[key] = self.first
        return self.first

    def _make_room(self, key: str, ctx: RunningCall) -> None:
        """End a session if there are too many. Raises Overloaded if all are in use."""
        is_conversation = key.startswith(AGENT_KEYS)
        limit = self.limits.conversations if is_conversation else self.limits.limit
        kind = "conversations" if is_conversation else "sessions"
        alike = [pair for pair in self._sessions.items() if pair[0].startswith(AGENT_KEYS) == is_conversation]
        if (ended := choose_session_to_end(alike, limit, get_owner(ctx), kind)) is not None:
            self._end(ended)

    def _list_conversations(self) -> list[tuple[str, ClientSession]]:
        return [(key, found) for key, found in self._sessions.items() if key.startswith(AGENT_KEYS)]

    def _end(self, key: str) -> None:
        found = self._sessions.pop(key)
        if found is not self.first:  # the first determines what is published
            found.close()

    def _end_unless_shared(self, key: str) -> None:
        if key:
            self._end(key)


@dataclass(slots=True)
class SessionLease(Generic[T]):
    """Holds a session for a `with` block, which gets what `select` returns. A class, because every call enters one."""

    _sessions: ModuleSessions
    _ctx: RunningCall
    _select: Callable[[ClientSession | None], T]
    _acquired: ClientSession | None = None

    async def __aenter__(self) -> T:
        self._acquired = await self._sessions.acquire(self._ctx)
        return self._select(self._acquired)

    async def __aexit__(self, *_: object) -> None:
        if self._acquired is not None:
            self._sessions.release_session(self._acquired)


def require_session(found: ClientSession | None) -> ModuleSession:
    """The session, if there is one. Raises ToolUnavailable."""
    if found is None:
        raise ToolUnavailable("The modules are no longer mounted.")
    return found.session
