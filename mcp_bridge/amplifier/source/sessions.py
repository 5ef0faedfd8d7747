"""One session of a plan's modules for each client: what modules keep for one is not seen by another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Generic, TypeVar
from weakref import ref

import anyio
from anyio.abc import TaskGroup

from mcp_bridge.amplifier.governance.hooks import Hooked
from mcp_bridge.amplifier.hooks import HookRegistry
from mcp_bridge.amplifier.plan import Plan
from mcp_bridge.amplifier.session import Session
from mcp_bridge.amplifier.source.recording import others
from mcp_bridge.amplifier.source.refusing import Refusing
from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import Overloaded, ToolUnavailable

T = TypeVar("T")
AskRoot = Callable[[CallContext], Awaitable[Path | None]]
"""Asks the client of a call for the folder that its session works in; None is the folder of the settings."""
SWEEP = 0.25
"""The share of the idle time after which somebody looks who has been idle for that long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """Which clients share a session: with `shared` all of them. One nobody has called in for `idle` seconds ends.

    One more than `most` ends the one that has been idle for longest; where none is, the newcomer is refused.
    """

    shared: bool = False
    most: int = 100
    idle: float = 1800.0


class Life:
    """One session at work: `calls` are in flight, the last of them was there at `used`, on the event loop's clock.

    It has `begun` once it is `ready`, unless it never will.
    """

    __slots__ = ("__weakref__", "_over", "_unwanted", "begun", "calls", "ready", "session", "used")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.ready = anyio.Event()
        self.begun = False
        self.calls = 0
        self.used = anyio.current_time()
        self._unwanted = False
        self._over = anyio.Event()

    def end(self) -> None:
        """End it, once its calls have ended."""
        self._unwanted = True
        if not self.calls:
            self._over.set()

    def leave(self) -> None:
        """One call less."""
        self.calls -= 1
        self.used = anyio.current_time()
        if self._unwanted:
            self.end()

    async def run(self, plan: Plan) -> None:
        """The whole of it, in one task: what modules enter when they are mounted they can leave when they clean up."""
        try:
            await self.session.begin(plan)
            self.begun = True
            self.ready.set()
            await self._over.wait()
        finally:
            self.ready.set()
            with anyio.CancelScope(shield=True):
                await self.session.end()

    @property
    def hooks(self) -> Hooked:
        """Its hooks; while one of them is missing, what stands for them."""
        missing = self.session.missing
        return Refusing(missing) if missing else self.session.hooks

    @property
    def is_free(self) -> bool:
        """Whether it is known that no module of it has hooks."""
        return self.begun and not others(self.session.hooks.list_handlers())


class Sessions:
    """The sessions of one plan, by the key of the client's session; `make` makes one that is not begun.

    The first session, which tells what there is to publish, is that of the first client that comes. A session ends when
    its client has left, or as `keeping` says. `gone` stands for the hooks while there is no session.
    With `ask_root`, each client is asked once for the folder of its session, which `make` receives; one that has a
    folder of its own gets a session of its own instead of the first.
    """

    def __init__(self, plan: Plan, make: Callable[[Path | None], Session], keeping: Keeping) -> None:
        self._plan = plan
        self._make = make
        self.keeping = keeping
        self.ask_root: AskRoot | None = None
        self._asking: dict[str, anyio.Lock] = {}
        self._lives: dict[str, Life] = {}
        self.first: Life | None = None
        self._free = False
        self._tasks: TaskGroup | None = None
        self.gone: Hooked = Refusing(self.hook_modules or [spec.module for spec in plan.everything()])

    async def begin(self, tasks: TaskGroup) -> Session:
        """Begin the first session; all of them are tasks of this group."""
        self._tasks = tasks
        life = self.first = Life(self._make(None))
        self._free = True
        tasks.start_soon(life.run, self._plan)
        tasks.start_soon(self._sweep)
        await life.ready.wait()
        return life.session

    def stop(self) -> None:
        """From now on there is no session any more, and every call is refused where a module has hooks."""
        if not self.hook_modules and (self.first is None or (self._tasks is not None and self.first.is_free)):
            self.gone = HookRegistry()
        self._tasks, self._free = None, False
        self._lives.clear()

    @property
    def in_use(self) -> int:
        """How many sessions clients have."""
        return len(self._lives)

    @property
    def hook_modules(self) -> list[str]:
        """The hook modules of the plan."""
        return [spec.module for spec in self._plan.of("hooks")]

    def hooked(self, ctx: CallContext) -> Lent[Hooked]:
        """The hooks of a client's session, to enter; it does not end before it is left."""
        return Lent(self, ctx, self._hooks)

    def lent(self, ctx: CallContext) -> Lent[Session]:
        """A client's session itself, to enter. Raises as `of`."""
        return Lent(self, ctx, _session)

    def here(self, ctx: CallContext) -> Session | None:
        """A client's session; None where it has none yet."""
        key = self._key(ctx)
        life = self._lives.get(key) or (self._adopt(key) if self._free and self.ask_root is None else None)
        return life.session if life is not None and life.begun else None

    async def of(self, ctx: CallContext) -> Session:
        """A client's session, begun where it has none. Raises Overloaded, ToolUnavailable."""
        async with self.lent(ctx) as session:
            return session

    async def enter(self, ctx: CallContext) -> Life | None:
        """A client's session, begun where it has none, with one call more; None when there are no sessions any more.

        Raises Overloaded when there are too many.
        """
        if self._tasks is None:
            return None
        key = self._key(ctx)
        life = self._lives.get(key)
        if life is None:
            life = (
                self._come(key, ctx)
                if self.ask_root is None
                else await self._ask_root_and_come(key, ctx, self.ask_root)
            )
        if life is None:
            return None
        life.calls += 1
        if not life.ready.is_set():
            try:
                await life.ready.wait()
            except BaseException:
                life.leave()
                raise
        if not life.begun:
            life.leave()
            return None
        return life

    def _hooks(self, life: Life | None) -> Hooked:
        return life.hooks if life is not None else self.gone

    def _key(self, ctx: CallContext) -> str:
        return "" if self.keeping.shared else ctx.session

    async def _ask_root_and_come(self, key: str, ctx: CallContext, ask: AskRoot) -> Life | None:
        """A session for a client that has none, in its own folder: one of its calls asks, the others wait for it."""
        async with self._asking.setdefault(key, anyio.Lock()):
            try:
                folder = await ask(ctx) if key not in self._lives else None
            finally:
                self._asking.pop(key, None)
            if self._tasks is None:
                return None
            return self._lives.get(key) or self._come(key, ctx, folder)

    def _come(self, key: str, ctx: CallContext, folder: Path | None = None) -> Life:
        """A session for a client that has none."""
        if len(self._lives) >= self.keeping.most and not self._make_room():
            raise Overloaded("There are too many sessions, and all are at work. Try again later.")
        life = self._adopt(key) if self._free and folder is None else Life(self._make(folder))
        if key not in self._lives:
            self._lives[key] = life
            assert self._tasks is not None
            self._tasks.start_soon(life.run, self._plan)
        if not self.keeping.shared:
            ctx.when_left(partial(self._left, key, ref(life)))  # a connection may outlive many
        return life

    def _adopt(self, key: str) -> Life:
        """Give the first session to this client."""
        assert self.first is not None
        self._free = False
        self._lives[key] = self.first
        return self.first

    def _make_room(self) -> bool:
        """End the session that has been idle for longest; whether there was one."""
        idle = [(life.used, key) for key, life in self._lives.items() if not life.calls]
        if not idle:
            return False
        self._end(min(idle)[1])
        return True

    def _left(self, key: str, life: ref[Life]) -> None:
        known = self._lives.get(key)
        if known is not None and known is life():
            self._end(key)

    def _end(self, key: str) -> None:
        """Forget a session, and have it end."""
        life = self._lives.pop(key)
        if life is not self.first:  # that one says what is published
            life.end()

    async def _sweep(self) -> None:
        while True:
            await anyio.sleep(self.keeping.idle * SWEEP)
            past = anyio.current_time() - self.keeping.idle
            for key, life in list(self._lives.items()):
                if key and not life.calls and life.used < past:
                    self._end(key)


class Lent(Generic[T]):
    """What is `seen` of a session, for as long as a call needs it; a class, because every call enters one."""

    __slots__ = ("_ctx", "_life", "_seen", "_sessions")

    def __init__(self, sessions: Sessions, ctx: CallContext, seen: Callable[[Life | None], T]) -> None:
        self._sessions = sessions
        self._ctx = ctx
        self._seen = seen
        self._life: Life | None = None

    async def __aenter__(self) -> T:
        self._life = await self._sessions.enter(self._ctx)
        return self._seen(self._life)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._life is not None:
            self._life.leave()


def _session(life: Life | None) -> Session:
    if life is None:
        raise ToolUnavailable("The modules are not mounted any more.")
    return life.session
