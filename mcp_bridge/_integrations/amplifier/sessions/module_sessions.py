"""The sessions of a plan: each client has its own instances of the modules, so no client sees the state of another.

A call gets its session by the key of its client (`RunningCall.state_key`):

- The first session starts before any client connects, because its modules determine what is published. The first client
  without its own folder adopts it.
- Every other client gets a session with its first call. It ends when the client disconnects, when it is idle, or when
  another client needs its place.
- A call of an unidentified client has a separate session. It ends with the call.
- A conversation with the agent has a session, too. Its key starts with `AGENT_KEYS`.

With `shared`, there is one session for all clients, under an empty key, and those of conversations.
"""

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
from mcp_bridge._integrations.amplifier.hook_middleware import SessionHooks
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
WORKING_DIR = "session.working_dir"
"""The capability with the folder of a session. Without it, modules use the directory of the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """The limits of the sessions of a plan.

    Attributes:
        shared: Whether all clients share one session.
        limit: The maximum number of clients' sessions (see `choose_session_to_end`).
        idle_timeout: The seconds without a call after which a session ends.
        conversations: The maximum number of conversations with an agent.
    """

    shared: bool = False
    limit: int = 100
    idle_timeout: float = 1800.0
    conversations: int = 100


class ModuleSessions:
    """The sessions of one plan, by the key of the client's session.

    `create` creates a session without starting it, with a working directory and an id if these are given. `ask_root`
    asks each client once for its working directory; None if all sessions work in the same folder. A client with its own
    folder does not adopt the first session.
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
        # The hooks of a call that comes before `start` or after `stop`.
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
        has_never_started = self.first is None
        runs_without_hooks = self._tasks is not None and self.first is not None and self.first.has_no_hooks
        if not self._hook_modules and (has_never_started or runs_without_hooks):
            self._hooks_without_session = self._no_hooks
        self._tasks = None
        self._first_is_free = False
        self._sessions.clear()

    @property
    def in_use(self) -> int:
        """The number of sessions of clients."""
        return len(self._sessions) - self._count_conversations()

    @property
    def conversations_in_use(self) -> int | None:
        """The number of conversations with the agent; None without an agent."""
        return self._count_conversations() if self._plan.orchestrator is not None else None

    def acquire_hooks(self, ctx: RunningCall) -> AbstractAsyncContextManager[SessionHooks]:
        """Return a context manager for the hooks of the client's session. The session does not end inside it."""
        may_need_new_session = self._is_single(ctx) or self._is_foreign(ctx.state_key)
        # Mounting the modules for one call takes long, so do not mount them only to find that they have no hooks.
        if may_need_new_session and not self._hook_modules and self.first is not None and self.first.has_no_hooks:
            return nullcontext(self._no_hooks)
        return SessionLease(self, ctx, self._get_hooks)

    def lease(self, ctx: RunningCall) -> SessionLease[ModuleSession]:
        """Return a context manager for the client's session. The session does not end inside it.

        Entering it raises Overloaded or ToolUnavailable.
        """
        return SessionLease(self, ctx, require_session)

    def find(self, ctx: RunningCall) -> ModuleSession | None:
        """Return the client's session, or None if it has not started."""
        key = self._get_key(ctx)
        client_session = self._sessions.get(key)
        if client_session is None:
            is_excluded = self.ask_root is not None or self._is_single(ctx) or self._is_foreign(key)
            if not self._first_is_free or is_excluded:
                return None
            client_session = self._adopt_first(key, ctx)
        return client_session.session if client_session.has_started else None

    def add_session(self, ctx: RunningCall, session: ModuleSession, plan: MountPlan) -> None:
        """Start a session with its own plan, for calls in this context. Raises Overloaded and ToolUnavailable."""
        if self._tasks is None:
            raise ToolUnavailable("The modules are no longer mounted.")
        key = ctx.state_key
        self._make_room(key, ctx)
        self._run_session(ClientSession(session), key, ctx, plan)
        end_with_client(ctx, self._sessions, key, self.end_session)

    def end_session(self, key: str) -> None:
        """End the session of a key, if there is one, as soon as no call is in flight."""
        client_session = self._sessions.pop(key, None)
        # The first session determines what is published, so it remains.
        if client_session is not None and client_session is not self.first:
            client_session.close()

    async def acquire(self, ctx: RunningCall) -> ClientSession | None:
        """Return the client's session, and count the call as in flight until `release_session`.

        A client without a session gets one. Returns None after `stop`, and if the session could not start. Raises
        Overloaded, or ToolUnavailable for a thread that outlasts its call.
        """
        if self._tasks is None:
            return None
        key = self._get_key(ctx)
        client_session = self._sessions.get(key)
        if client_session is None:
            # A thread can go on after its call was cancelled. Nothing would end a session that starts for it then.
            if is_abandoned():
                raise ToolUnavailable("The call has ended.")
            if self.ask_root is None or self._is_single(ctx):
                client_session = self._add(key, ctx)
                self._log_unasked()
            else:
                client_session = await self._add_with_root(key, ctx, self.ask_root)
        if client_session is None:
            return None
        client_session.calls += 1
        if not client_session.ready.is_set():
            try:
                await client_session.ready.wait()
            except BaseException:
                self.release_session(client_session)
                raise
        if not client_session.has_started:
            self.release_session(client_session)
            return None
        return client_session

    def release_session(self, client_session: ClientSession) -> None:
        """Count a call as finished. The session of a single call ends with the call."""
        client_session.release()
        if client_session.key and not client_session.calls:
            self.end_session(client_session.key)

    def has_session(self, key: str) -> bool:
        """Return whether there is a session with this key."""
        return key in self._sessions

    def _get_hooks(self, client_session: ClientSession | None) -> SessionHooks:
        return client_session.hooks if client_session is not None else self._hooks_without_session

    def _get_key(self, ctx: RunningCall) -> str:
        key = ctx.state_key
        if self.limits.shared and not key.startswith(AGENT_KEYS):
            return ""
        return key

    def _log_unasked(self) -> None:
        """Log once: clients without a named session are not asked for their folder."""
        if self.ask_root is not None and not self._has_logged_unasked:
            self._has_logged_unasked = True
            log_fallback("clients that name no session are not asked")

    def _is_single(self, ctx: RunningCall) -> bool:
        """Return whether the call gets a session for itself, because its client cannot be identified."""
        # The only client of a process has an empty key.
        return not self.limits.shared and not ctx.session and ctx.state_key != ""

    def _is_foreign(self, key: str) -> bool:
        """Return whether a key belongs to a conversation of another source, or to an ended one."""
        return key.startswith(AGENT_KEYS) and key not in self._sessions

    async def _add_with_root(self, key: str, ctx: RunningCall, ask_root: AskRoot) -> ClientSession | None:
        """Add a session in the client's folder. One call asks the client for it, and its other calls wait."""
        async with self._root_locks.setdefault(key, anyio.Lock()):
            try:
                # A call that has waited for the lock finds the session of the one before it.
                folder = await ask_root(ctx) if key not in self._sessions else None
            finally:
                self._root_locks.pop(key, None)
            if self._tasks is None:
                return None
            return self._sessions.get(key) or self._add(key, ctx, folder)

    def _add(self, key: str, ctx: RunningCall, folder: Path | None = None) -> ClientSession:
        """Give a client the first session, if it is free and fits, or a new one."""
        self._make_room(key, ctx)
        is_single, is_conversation = self._is_single(ctx), key.startswith(AGENT_KEYS)
        if self._first_is_free and folder is None and not is_single and not is_conversation:
            client_session = self._adopt_first(key, ctx)
        else:
            session = self._create(folder, get_session_id(key) if is_conversation else None)
            client_session = ClientSession(session, key if is_single else "")
            self._run_session(client_session, key, ctx, self._plan)
        if not self.limits.shared or is_conversation:
            end_with_client(ctx, self._sessions, key, self.end_session)
        return client_session

    def _run_session(self, client_session: ClientSession, key: str, ctx: RunningCall, plan: MountPlan) -> None:
        assert self._tasks is not None
        client_session.owner = get_owner(ctx)
        self._sessions[key] = client_session
        self._tasks.start_soon(client_session.run, plan)

    def _adopt_first(self, key: str, ctx: RunningCall) -> ClientSession:
        assert self.first is not None
        self._first_is_free = False
        self._sessions[key] = self.first
        self.first.owner = get_owner(ctx)
        return self.first

    def _make_room(self, key: str, ctx: RunningCall) -> None:
        """End a session if there are too many. Raises Overloaded if all are in use."""
        is_conversation = key.startswith(AGENT_KEYS)
        if is_conversation:
            limit, name = self.limits.conversations, "conversations"
        else:
            limit, name = self.limits.limit, "sessions"
        sessions = [pair for pair in self._sessions.items() if pair[0].startswith(AGENT_KEYS) == is_conversation]
        session_key = choose_session_to_end(sessions, limit, get_owner(ctx), name)
        if session_key is not None:
            self.end_session(session_key)

    def _count_conversations(self) -> int:
        return sum(key.startswith(AGENT_KEYS) for key in self._sessions)

    def _end_unless_shared(self, key: str) -> None:
        """End an idle session, unless it is the shared one with its empty key."""
        if key:
            self.end_session(key)


@dataclass(slots=True)
class SessionLease(Generic[T]):
    """Holds the client's session for a `with` block. The block receives the result of `select` for the session.

    It is a class, because every call enters a lease, and a generator would be slower.
    """

    _sessions: ModuleSessions
    _ctx: RunningCall
    _select: Callable[[ClientSession | None], T]
    _client_session: ClientSession | None = None

    async def __aenter__(self) -> T:
        self._client_session = await self._sessions.acquire(self._ctx)
        return self._select(self._client_session)

    async def __aexit__(self, *_: object) -> None:
        if self._client_session is not None:
            self._sessions.release_session(self._client_session)


def require_session(client_session: ClientSession | None) -> ModuleSession:
    """Return the session, if there is one. Raises ToolUnavailable."""
    if client_session is None:
        raise ToolUnavailable("The modules are no longer mounted.")
    return client_session.session
