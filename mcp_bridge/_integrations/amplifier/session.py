"""A session mounts the modules of a plan on one coordinator, and runs them from session:start to session:end.

For each module, it compares a snapshot of the coordinator before the mount with one after it. In this way it finds out
which tools the module owns, and reports modules without an effect.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from mcp_bridge._contracts.errors import BridgeError
from mcp_bridge._integrations.amplifier.coordinator import CLEANUP_TIMEOUT, NAMED_POINTS, ModuleCoordinator
from mcp_bridge._integrations.amplifier.errors import MountCollision
from mcp_bridge._integrations.amplifier.events import (
    MODULE_LOAD_FAILED,
    MODULE_ON_SESSION_READY_FAILED,
    SESSION_END,
    SESSION_START,
)
from mcp_bridge._integrations.amplifier.hooks import HookRegistry
from mcp_bridge._integrations.amplifier.inspection import describe_missing_capability, describe_unemitted_events
from mcp_bridge._integrations.amplifier.loader import ModuleLoader
from mcp_bridge._integrations.amplifier.mount_plan import MountPlan, PlannedModule
from mcp_bridge._runtime.third_party import describe_error, is_own_cancellation

logger = logging.getLogger("mcp_bridge.amplifier")
_EFFECTS = ("named", "single", "pending", "capabilities", "state")
"""The fields of a snapshot through which a module can have an effect without hooks."""


@dataclass(slots=True)
class ModuleState:
    """A module of the plan. `problem` says why it is not mounted, `warning` why a part of it has no effect."""

    spec: PlannedModule
    problem: str = ""
    warning: str = ""


@dataclass(slots=True)
class SessionStats:
    """The statistics in session:end: the number of completed tool calls, and how many of them have failed."""

    calls: int = 0
    errors: int = 0


class ModuleSession:
    """The mounted modules of a plan.

    Attributes:
        problems: A line for each module that is not mounted or has no effect.
        missing_hooks: The hook modules that are not mounted. No call may run without their decisions.
        useless_tools: The names of the tools that can only fail.
        states: The state of every module, in mount order.
        describe_config: Converts the plan for session:start.
        on_change: Is called when the session has begun or ended.
    """

    def __init__(self, coordinator: ModuleCoordinator, loader: ModuleLoader | None = None) -> None:
        self.coordinator = coordinator
        self.loader = loader or ModuleLoader(coordinator)
        if coordinator.loader is None:
            coordinator.loader = self.loader
        self.problems: list[str] = []
        self.missing_hooks: list[str] = []
        self.useless_tools: set[str] = set()
        self.states: list[ModuleState] = []
        self.stats = SessionStats()
        self.describe_config: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
        self.on_change: Callable[[], None] = lambda: None
        self._began = time.monotonic()
        self._owners: dict[tuple[str, str], str] = {}

    async def begin(self, plan: MountPlan) -> None:
        """Mount the modules, call their `on_session_ready`, and emit session:start. Failures go to `problems`."""
        for spec in plan.list_modules():
            await self._mount(spec)
        await self._make_ready()
        self._find_useless_tools()
        self.on_change()
        await self.coordinator.hooks.emit(SESSION_START, {"config": self.describe_config(self.coordinator.config)})

    async def end(self) -> None:
        """Emit session:end and clean up the modules, the last one first; each step has a time limit."""
        duration = round((time.monotonic() - self._began) * 1000)
        stats = {"calls": self.stats.calls, "errors": self.stats.errors, "duration_ms": duration}
        with anyio.move_on_after(CLEANUP_TIMEOUT):
            await self.coordinator.hooks.emit(SESSION_END, {"stats": stats})
        await self.coordinator.cleanup()
        self.on_change()

    def get_tools(self) -> dict[str, Any]:
        return dict(self.coordinator.get("tools"))

    def find_owner(self, point: str, name: str) -> str:
        """Return the module whose `mount` has mounted a tool or a provider; empty if it was mounted later."""
        return self._owners.get((point, name), "")

    def list_unmounted(self) -> list[str]:
        """Return the modules that are not mounted, or have mounted nothing."""
        return [state.spec.module for state in self.states if state.problem]

    @property
    def hooks(self) -> HookRegistry:
        return self.coordinator.hooks

    async def _make_ready(self) -> None:
        problems = await self.loader.run_session_ready(self.coordinator)
        self.problems += problems
        for module, line in zip(self.loader.failed_modules, problems, strict=True):
            for state in self.states:
                if state.spec.module == module and not state.problem:
                    state.problem = line.removeprefix(f"{module}: ")
                    # A hook module may register its handlers in `on_session_ready`.
                    if state.spec.section == "hooks":
                        self.missing_hooks.append(module)
            await self.coordinator.hooks.emit(MODULE_ON_SESSION_READY_FAILED, {"module_id": module, "error": line})

    async def _mount(self, spec: PlannedModule) -> None:
        self.states.append(ModuleState(spec))
        before = self._take_snapshot()
        # If another module has the name of a tool, only this tool is lost: the module continues with its other tools.
        collisions: list[MountCollision] = []
        self.coordinator.on_collision = collisions.append
        try:
            result = await self.loader.load(spec.module, dict(spec.config), spec.source)
            is_mounted = accept_mount_result(self.coordinator, result)
        except BaseException as error:
            if is_own_cancellation(error):
                raise
            await self._record_failure(spec, error)
            return
        finally:
            self.coordinator.on_collision = None
            for point in NAMED_POINTS:
                for name in self.coordinator.get(point):
                    # Names without an owner were mounted by this module.
                    self._owners.setdefault((point, name), spec.module)
        after = self._take_snapshot()
        if collisions and after == before:
            await self._record_failure(spec, collisions[0])
            return
        for collision in collisions:
            self._add_warning(self.states[-1], f"{collision}{self._describe_owner(collision, spec)}")
        if not is_mounted and after == before:
            self._add_problem(spec, "it mounted nothing. Check its configuration and the log")
            return
        has_only_hooks = all(after[field] == before[field] for field in _EFFECTS)
        if self.coordinator.get("orchestrator") is None and has_only_hooks:
            handlers = before["handlers"]
            new_events = [event for event, names in after["handlers"].items() if names != handlers.get(event)]
            self._add_warning(self.states[-1], describe_unemitted_events(new_events))

    def _find_useless_tools(self) -> None:
        for name, tool in self.get_tools().items():
            problem = describe_missing_capability(tool, self.coordinator.get_capability)
            if problem:
                self.useless_tools.add(name)
                owner = self._owners.get(("tools", name), "")
                for state in self.states:
                    if state.spec.module == owner:
                        self._add_warning(state, f"its tool '{name}' is not published: {problem}")

    def _add_warning(self, state: ModuleState, warning: str) -> None:
        if warning:
            self.problems.append(f"{state.spec.module}: {warning}")
            state.warning = warning

    async def _record_failure(self, spec: PlannedModule, error: BaseException) -> None:
        problem = str(error) if isinstance(error, BridgeError) else describe_error(error)
        collision = error if isinstance(error, MountCollision) else error.__cause__
        if isinstance(collision, MountCollision):
            problem += self._describe_owner(collision, spec)
        logger.error("module %r is not mounted: %s", spec.module, problem)
        self._add_problem(spec, problem)
        if spec.section == "hooks":
            self.missing_hooks.append(spec.module)
        data = {"module_type": spec.section, "module_id": spec.module, "error": problem}
        await self.coordinator.hooks.emit(MODULE_LOAD_FAILED, data)

    def _describe_owner(self, collision: MountCollision, spec: PlannedModule) -> str:
        owner = self._owners.get((collision.point, collision.name), spec.module)
        return f" The other belongs to module '{owner}'."

    def _add_problem(self, spec: PlannedModule, problem: str) -> None:
        self.problems.append(f"{spec.module}: {problem}")
        self.states[-1].problem = problem

    def _take_snapshot(self) -> dict[str, Any]:
        """Return all registrations and mounted objects, for comparison with another snapshot."""
        coordinator = self.coordinator
        named_modules = {}
        for point in NAMED_POINTS:
            for name, module in coordinator.get(point).items():
                named_modules[point, name] = id(module)
        return {
            "named": named_modules,
            "single": [id(coordinator.get("orchestrator")), id(coordinator.get("context"))],
            "handlers": coordinator.hooks.list_handlers(),
            "pending": self.loader.pending_count,
            **coordinator.take_snapshot(),
        }


def is_tool(result: Any) -> bool:
    return all(hasattr(result, name) for name in ("name", "description")) and callable(getattr(result, "execute", None))


def is_provider(result: Any) -> bool:
    return hasattr(result, "name") and callable(getattr(result, "complete", None))


def accept_mount_result(coordinator: ModuleCoordinator, result: Any) -> bool:
    """Mount a returned tool or provider, or register a returned cleanup. Return whether it was one of these."""
    for point, fits in (("tools", is_tool), ("providers", is_provider)):
        if fits(result):
            if not any(result is module for module in coordinator.get(point).values()):
                coordinator.mount(point, result)
            return True
    if callable(result):
        coordinator.register_cleanup(result)
        return True
    return False
