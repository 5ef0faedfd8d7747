"""A session: the modules of a mount plan, mounted on one coordinator, from session:start to session:end."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from mcp_bridge.amplifier.coordinator import CLEANUP, ModuleCoordinator
from mcp_bridge.amplifier.errors import MountCollision
from mcp_bridge.amplifier.events import MODULE_LOAD_FAILED, MODULE_ON_SESSION_READY_FAILED, SESSION_END, SESSION_START
from mcp_bridge.amplifier.hooks import HookRegistry
from mcp_bridge.amplifier.loader import ModuleLoader
from mcp_bridge.amplifier.mounts import NAMED
from mcp_bridge.amplifier.plan import ModuleSpec, Plan
from mcp_bridge.contracts.errors import BridgeError
from mcp_bridge.runtime.third_party import described, passes

logger = logging.getLogger("mcp_bridge.amplifier")


@dataclass(slots=True)
class ModuleState:
    """A module of the plan, and what is wrong with it; empty where it is mounted."""

    spec: ModuleSpec
    problem: str = ""


@dataclass(slots=True)
class Stats:
    """What session:end tells of the session: calls of tools that have been answered, how many of them with an error."""

    calls: int = 0
    errors: int = 0

    def count(self, *, failed: bool) -> None:
        """One call more."""
        self.calls += 1
        self.errors += failed


class Session:
    """The modules of a plan at work. `problems` has a line for each that could not be mounted, or has nothing.

    `missing` are the hook modules among them: what they would have decided, nobody else can. `states` has all modules.
    `shown` is what session:start tells of the plan, `ready` runs once every module is ready, `changed` when it begins
    and when it has ended.
    """

    def __init__(self, coordinator: ModuleCoordinator, loader: ModuleLoader | None = None) -> None:
        self.coordinator = coordinator
        self.loader = loader or ModuleLoader(coordinator)
        if coordinator.loader is None:
            coordinator.loader = self.loader
        self.problems: list[str] = []
        self.missing: list[str] = []
        self.states: list[ModuleState] = []
        self.stats = Stats()
        self.shown: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
        self.ready: Callable[[ModuleCoordinator], Awaitable[None]] | None = None
        self.changed: Callable[[], None] = lambda: None
        self._began = time.monotonic()
        self._owners: dict[tuple[str, str], str] = {}

    async def begin(self, plan: Plan) -> None:
        """Mount every module, have them ready, and say that the session starts. What fails is among the problems."""
        for spec in plan.everything():
            await self._mount(spec)
        await self._get_ready()
        if self.ready is not None:
            await self.ready(self.coordinator)
        self.changed()
        await self.coordinator.hooks.emit(SESSION_START, {"config": self.shown(self.coordinator.config)})

    async def end(self) -> None:
        """Say that the session ends, and have the modules clean up, the last one first; none can hold that up."""
        with anyio.move_on_after(CLEANUP):
            await self.coordinator.hooks.emit(SESSION_END, {"stats": self._told()})
        await self.coordinator.cleanup()
        self.changed()

    def tools(self) -> dict[str, Any]:
        """The mounted tools by their mount keys."""
        mounted: dict[str, Any] = self.coordinator.get("tools")
        return dict(mounted)

    def tool(self, key: str) -> Any:
        """The tool that is mounted under a key, or None."""
        return self.coordinator.get("tools", key)

    @property
    def hooks(self) -> HookRegistry:
        """Who hears what happens in it."""
        return self.coordinator.hooks

    async def _get_ready(self) -> None:
        failed = await self.loader.session_ready(self.coordinator)
        self.problems += failed
        for module, told in zip(self.loader.unready, failed, strict=True):
            for state in self.states:
                if state.spec.module == module and not state.problem:
                    state.problem = told.removeprefix(f"{module}: ")
                    self.missing += [module] if state.spec.kind == "hooks" else []  # it may have been to register
            await self.coordinator.hooks.emit(MODULE_ON_SESSION_READY_FAILED, {"module_id": module, "error": told})

    def _told(self) -> dict[str, Any]:
        lasted = round((time.monotonic() - self._began) * 1000)
        return {"calls": self.stats.calls, "errors": self.stats.errors, "duration_ms": lasted}

    async def _mount(self, spec: ModuleSpec) -> None:
        self.states.append(ModuleState(spec))
        before = self._marks()
        try:
            answer = await self.loader.load(spec.module, dict(spec.config), spec.source)
            took = self._take(spec, answer)
        except BaseException as error:
            if passes(error):
                raise
            await self._failed(spec, error)
            return
        finally:
            for point in NAMED:
                for name in self.coordinator.get(point):
                    self._owners.setdefault((point, name), spec.module)
        if not took and self._marks() == before:
            self._wrong(spec, "it mounted nothing. Look at its configuration, and at the log")

    async def _failed(self, spec: ModuleSpec, error: BaseException) -> None:
        told = str(error) if isinstance(error, BridgeError) else described(error)
        collision = error if isinstance(error, MountCollision) else error.__cause__
        if isinstance(collision, MountCollision):
            told += f" The other is of module '{self._owners.get((collision.point, collision.name), spec.module)}'."
        logger.error("module %r is not mounted: %s", spec.module, told)
        self._wrong(spec, told)
        if spec.kind == "hooks":
            self.missing.append(spec.module)
        data = {"module_type": spec.kind, "module_id": spec.module, "error": told}
        await self.coordinator.hooks.emit(MODULE_LOAD_FAILED, data)

    def _wrong(self, spec: ModuleSpec, told: str) -> None:
        self.problems.append(f"{spec.module}: {told}")
        self.states[-1].problem = told

    def _take(self, spec: ModuleSpec, answer: Any) -> bool:
        """Do what a module's `mount` has left to be done with its answer; whether there was anything."""
        point = "tools" if is_tool(answer) else "providers" if is_provider(answer) else spec.kind
        if point in NAMED and (is_tool(answer) or is_provider(answer)):
            mounted = self.coordinator.get(point).values()
            if not any(answer is one for one in mounted):
                self.coordinator.mount(point, answer)
            return True
        if callable(answer):
            self.coordinator.register_cleanup(answer)
            return True
        return False

    def _marks(self) -> list[Any]:
        """What a module can leave behind, to be compared."""
        coordinator = self.coordinator
        named = [{name: id(module) for name, module in coordinator.get(point).items()} for point in NAMED]
        single = [id(coordinator.get("orchestrator")), id(coordinator.get("context"))]
        handlers = coordinator.hooks.list_handlers()
        return [named, single, handlers, self.loader.waiting, *coordinator.marks()]


def is_tool(answer: Any) -> bool:
    """Whether this is a tool, by its shape."""
    return all(hasattr(answer, name) for name in ("name", "description")) and callable(getattr(answer, "execute", None))


def is_provider(answer: Any) -> bool:
    """Whether this is a provider, by its shape."""
    return hasattr(answer, "name") and callable(getattr(answer, "complete", None))
