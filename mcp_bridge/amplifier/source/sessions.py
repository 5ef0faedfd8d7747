"""Sessions: each client gets its own instances of a plan's modules, so no client sees another client's state."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit
from weakref import ref

import anyio
from anyio.abc import TaskGroup

from mcp_bridge.amplifier.events import PROMPT_SUBMIT, TOOL_PRE
from mcp_bridge.amplifier.governance.hook_middleware import SessionHooks
from mcp_bridge.amplifier.hooks import HookRegistry
from mcp_bridge.amplifier.models import HookResult
from mcp_bridge.amplifier.mount_plan import MountPlan
from mcp_bridge.amplifier.session import ModuleSession
from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import CallError, Overloaded, ToolUnavailable

logger = logging.getLogger("mcp_bridge.amplifier")

T = TypeVar("T")
AskRoot = Callable[[CallContext], Awaitable[Path | None]]  # returns None for the working directory of the settings
WORKING_DIR = "session.working_dir"  # capability (text); without it, modules use the directory of the process
NOT_ASKED = "clients that share a session are not asked"
AGENT_KEYS = "agent/"
"""The beginning of the keys of sessions that belong to conversations with an agent."""
EVENTS_LOG = "events-log"  # name of the bridge's own handlers, which write the events log
SWEEP = 0.25  # the share of the idle timeout between two searches for idle sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """Which clients share a session, and when sessions end.

    With `shared`, all clients share one. A session ends after `idle_timeout` seconds without a call. At most `limit`
    exist at once: a new client ends the one that has been idle longest, or is rejected where none is idle.
    """

    shared: bool = False
    limit: int = 100
    idle_timeout: float = 1800.0


class ClientSession:
    """A session with a count of its calls in flight; `last_used` is when the last one ended, on the event loop's clock.

    `key` is that of a session for a single call, else empty. `ready` is set once all modules are mounted, or once
    mounting has failed and `has_started` stays False.
    """

    __slots__ = (
        "__weakref__", "_closed", "_is_closing", "calls", "has_started", "key", "last_used", "ready", "session",
    )  # fmt: skip

    def __init__(self, session: ModuleSession, key: str = "") -> None:
        self.session = session
        self.key = key
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
        """Run the whole session in one task, because modules must exit what they have entered in the same task."""
        try:
            await self.session.begin(plan)
            self.has_started = True
            self.ready.set()
            await self._closed.wait()
        finally:
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
        """Whether the session has started and no module has registered a handler."""
        return self.has_started and not list_module_handlers(self.session.hooks.list_handlers())


class DenyingHooks:
    """Denies every call and every prompt, in place of the hooks of `modules`, which could have denied them."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._modules = modules

    def has_handlers(self, event: str) -> bool:
        return event in {TOOL_PRE, PROMPT_SUBMIT}

    async def collect_decision(self, event: str, data: dict[str, Any]) -> HookResult:
        modules = ", ".join(f"'{module}'" for module in self._modules)
        return HookResult(action="deny", reason=f"the hooks of {modules} are not in place, so every call is denied")


class ModuleSessions:
    """The sessions of one plan, by the key of the client's session. `create` creates one that is not started.

    The first session is started before any client connects, because it determines what is published; the first client
    adopts it. A session ends when its client disconnects, or as `limits` says. With `ask_root`, each client is asked
    once for its working directory; a client that has one gets a session of its own instead of the first.

    A call of a client that cannot be identified (`CallContext.state_key`) gets a session for itself and its nested
    calls.
    """

    def __init__(self, plan: MountPlan, create: Callable[[Path | None], ModuleSession], limits: SessionLimits) -> None:
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
        self.first = ClientSession(self._create(None))
        self._first_is_free = True
        tasks.start_soon(self.first.run, self._plan)
        tasks.start_soon(self._end_idle_sessions)
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
        return len(self._sessions)

    def acquire_hooks(self, ctx: CallContext) -> AbstractAsyncContextManager[SessionHooks]:
        """A context manager for the hooks of the client's session, which does not end inside it."""
        if self._is_single(ctx) and self._has_no_hooks():  # do not mount the modules only to find that
            return nullcontext(self._no_hooks)
        return SessionLease(self, ctx, self._get_hooks)

    def lease(self, ctx: CallContext) -> SessionLease[ModuleSession]:
        """A context manager for the client's session, which does not end inside it.

        Raises Overloaded or ToolUnavailable.
        """
        return SessionLease(self, ctx, require_session)

    def find(self, ctx: CallContext) -> ModuleSession | None:
        """The client's session, or None where it has not started."""
        key = self._get_key(ctx)
        found = self._sessions.get(key)
        if found is None and self._first_is_free and self.ask_root is None and not self._is_single(ctx):
            found = self._take_first(key)
        return found.session if found is not None and found.has_started else None

    async def acquire(self, ctx: CallContext) -> ClientSession | None:
        """The client's session with one call more, started where it has none; None after `stop`. Raises Overloaded."""
        if self._tasks is None:
            return None
        key = self._get_key(ctx)
        found = self._sessions.get(key)
        if found is None:
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
        """Count one call less. The session of a single call ends with it."""
        found.release()
        if found.key and not found.calls and found.key in self._sessions:
            self._end(found.key)

    def _get_hooks(self, found: ClientSession | None) -> SessionHooks:
        return found.hooks if found is not None else self._hooks_without_session

    def has_session(self, ctx: CallContext) -> bool:
        """Whether the session of a call exists already."""
        return self._get_key(ctx) in self._sessions

    def _get_key(self, ctx: CallContext) -> str:
        key = ctx.state_key
        return key if not self.limits.shared or key.startswith(AGENT_KEYS) else ""

    def _log_unasked(self) -> None:
        """Log once that clients without a session of their own are not asked for their folder."""
        if self.ask_root is not None and not self._has_logged_unasked:
            self._has_logged_unasked = True
            log_fallback("clients that name no session are not asked")

    def _is_single(self, ctx: CallContext) -> bool:
        """Whether the call has a session for itself."""
        return not self.limits.shared and not ctx.session and ctx.state_key != ""

    def _has_no_hooks(self) -> bool:
        if self._hook_modules or self.first is None or not self.first.has_started:
            return False
        return not any(self.first.session.hooks.list_handlers().values())  # those of the events log count, too

    async def _add_with_root(self, key: str, ctx: CallContext, ask_root: AskRoot) -> ClientSession | None:
        """Add a session in the client's own folder. One of its calls asks for it, and the others wait."""
        async with self._root_locks.setdefault(key, anyio.Lock()):
            try:
                folder = await ask_root(ctx) if key not in self._sessions else None
            finally:
                self._root_locks.pop(key, None)
            if self._tasks is None:
                return None
            return self._sessions.get(key) or self._add(key, ctx, folder)

    def _add(self, key: str, ctx: CallContext, folder: Path | None = None) -> ClientSession:
        if len(self._sessions) >= self.limits.limit and not self._end_longest_idle():
            raise Overloaded("There are too many sessions, and all are in use. Retry later.")
        is_single = self._is_single(ctx)
        reuse_first = self._first_is_free and folder is None and not is_single and not key.startswith(AGENT_KEYS)
        added = self._take_first(key) if reuse_first else ClientSession(self._create(folder), key if is_single else "")
        if key not in self._sessions:
            self._sessions[key] = added
            assert self._tasks is not None
            self._tasks.start_soon(added.run, self._plan)
        if not self.limits.shared:
            # The reference is weak because a connection may outlive many sessions.
            ctx.on_session_end(partial(self._end_after_disconnect, key, ref(added)))
        return added

    def _take_first(self, key: str) -> ClientSession:
        assert self.first is not None
        self._first_is_free = False
        self._sessions[key] = self.first
        return self.first

    def _end_longest_idle(self) -> bool:
        idle = [(found.last_used, key) for key, found in self._sessions.items() if not found.calls]
        if not idle:
            return False
        self._end(min(idle)[1])
        return True

    def _end_after_disconnect(self, key: str, added: ref[ClientSession]) -> None:
        found = self._sessions.get(key)
        if found is not None and found is added():
            self._end(key)

    def _end(self, key: str) -> None:
        found = self._sessions.pop(key)
        if found is not self.first:  # the first determines what is published
            found.close()

    async def _end_idle_sessions(self) -> None:
        while True:
            await anyio.sleep(self.limits.idle_timeout * SWEEP)
            oldest = anyio.current_time() - self.limits.idle_timeout
            for key, found in list(self._sessions.items()):
                if key and not found.calls and found.last_used < oldest:
                    self._end(key)


@dataclass(slots=True)
class SessionLease(Generic[T]):
    """Holds a session for a `with` block, which gets what `select` returns. A class, because every call enters one."""

    _sessions: ModuleSessions
    _ctx: CallContext
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


def list_module_handlers(handlers: Mapping[str, Iterable[str]]) -> set[str]:
    """The names of handlers, given by event, without those of the bridge."""
    return {name for names in handlers.values() for name in names} - {EVENTS_LOG}


async def ask_for_root(ctx: CallContext) -> Path | None:
    """Ask the client for its roots, and return the folder of the first that is a `file://` URI.

    Returns None and logs the reason where there is no such folder: the session then works in the settings' folder.
    Clients that share a session are not asked, because one of them would choose the folder of all. Raises Overloaded
    where too many calls are pending; the next call asks again.
    """
    problem = NOT_ASKED
    if ctx.session:
        try:
            uris = [root.uri for root in await ctx.roots(fallback=())]
        except Overloaded:
            raise
        except CallError as error:
            problem = f"the client has not listed its roots ({error})"
        else:
            uri = next((uri for uri in uris if uri.lower().startswith("file:")), None)
            if uri is None:
                problem = "the client has no file:// root"
            elif (folder := _to_folder(uri)) is not None:
                return folder
            else:
                problem = f"the client's root {uri!r} is not a folder here"
    log_fallback(problem)
    return None


def log_fallback(problem: str) -> None:
    logger.warning("working_dir: roots: %s, so this session works in the settings' folder", problem)


def _to_folder(uri: str) -> Path | None:
    """The folder of a `file://` URI, or None where this machine or this worker has no such folder."""
    from urllib.request import url2pathname  # late: it imports an HTTP client

    try:
        parts = urlsplit(uri)
        path = url2pathname(parts.path)
        is_here = parts.netloc.lower() in ("", "localhost") and os.path.isabs(path) and os.path.isdir(path)
        return Path(path).resolve() if is_here else None
    except (OSError, ValueError):
        return None
