"""amplifier-core as the host: its own coordinator, guarded as the native one is, and its own loader.

The one file that imports amplifier_core. It is imported late, and only for a session that is to have it.
"""

from __future__ import annotations

import inspect
import logging
import weakref
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import amplifier_core
from amplifier_core import module_sources
from amplifier_core.loader import ModuleValidationError

from mcp_bridge.amplifier.approvals import process
from mcp_bridge.amplifier.decisions import as_result, injections
from mcp_bridge.amplifier.errors import ModuleNotFoundError
from mcp_bridge.amplifier.guarded import CLEANUP, Cleanup, Guarded
from mcp_bridge.amplifier.hooks import Handler, HookRegistry
from mcp_bridge.amplifier.loader import ModuleLoader, imported
from mcp_bridge.amplifier.models import HookResult
from mcp_bridge.amplifier.mounts import Points
from mcp_bridge.amplifier.needing import is_foreign
from mcp_bridge.runtime.third_party import settled

logger = logging.getLogger("mcp_bridge.amplifier")

_NAME = "mcp-bridge"
_TOKEN = 4
"""Characters that amplifier-core takes for a token."""


class CoreHooks(HookRegistry):
    """The bridge's registry in the place of amplifier-core's. What is emitted there is heard here."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._core: Any = None
        self._relayed: set[str] = set()

    def stand_for(self, core: Any) -> None:
        """Hear what a registry of amplifier-core emits."""
        self._core = core

    def register(self, event: str, handler: Handler, priority: int = 0, name: str | None = None) -> Callable[[], None]:
        """Have a handler hear an event. Raises TypeError for what cannot be called."""
        unregister = super().register(event, handler, priority, name)
        if self._core is not None and event not in self._relayed:
            self._relayed.add(event)
            self._core.register(event, self._relay, 0, _NAME)
        return unregister

    on = register

    async def _relay(self, event: str, data: dict[str, Any]) -> Any:
        return theirs(await self.emit(event, data))


class CoreCoordinator(Guarded, amplifier_core.ModuleCoordinator):  # type: ignore[misc]
    """A coordinator of amplifier-core on which nothing fails open: `hooks` and the mount points are the bridge's.

    Capabilities, contributors, cancellation, `session_state`, the limits of injections and the systems for approval and
    display are amplifier-core's own. `config` is the mount plan; `changed` is called as the native one does.
    """

    def __new__(cls, config: dict[str, Any], hooks: CoreHooks, changed: Callable[[], None] = lambda: None) -> Any:
        """amplifier-core takes what it is to know from a session, which there is none of."""
        session = _Session(config)
        made = super().__new__(cls, session)
        session.of = weakref.ref(made)
        return made

    def __init__(self, config: dict[str, Any], hooks: CoreHooks, changed: Callable[[], None] = lambda: None) -> None:
        hooks.set_default_fields(session_id=self.session_id, parent_id=self.parent_id)
        hooks.stand_for(super().hooks)
        self._hooks = hooks
        self._points = _Points(hooks, changed, super().mount_points)
        self._cleanups: list[Cleanup] = []
        self._wanted: dict[str, Callable[[Any], None]] = {}

    @property
    def hooks(self) -> HookRegistry:  # type: ignore[override]
        """Who hears what happens."""
        return self._hooks

    @property
    def mount_points(self) -> dict[str, Any]:  # type: ignore[override]
        """What is mounted, by mount point."""
        return self._points

    def register_capability(self, name: str, value: Any) -> None:
        """Let other modules find something by name."""
        super().register_capability(name, value)
        if name in self._wanted:
            self._wanted[name](value)

    def get_capability(self, name: str) -> Any:
        """What a module has registered, or None."""
        return amplifier_core.ModuleCoordinator.get_capability(self, name)

    def contributors(self, channel: str) -> Iterable[tuple[str, Callable[[], Any]]]:
        """Who contributes to a channel."""
        return [(one["name"], one["callback"]) for one in self.channels.get(channel, ())]

    async def process_hook_result(self, result: Any, event: str, hook_name: str = "unknown") -> Any:
        """Carry out what hooks have decided, as the native coordinator does, within amplifier-core's limits.

        Raises ValueError for a text that is longer than `session.injection_size_limit`.
        """
        decided = as_result(result) or HookResult()
        for injection in injections(decided):
            self._count(injection.content, hook_name)
        done = await process(self, decided, event, hook_name)
        return result if done is decided else theirs(done)

    async def cleanup(self, timeout: float = CLEANUP) -> None:
        """Call every cleanup, as the native coordinator does, and let go of the modules."""
        await super().cleanup(timeout)
        self._let_go()

    def _let_go(self) -> None:
        """Garbage collection does not see what amplifier-core holds, such as tools that hold their coordinator."""
        self._wanted.clear()
        super().hooks.unregister(_NAME)
        self._hooks = CoreHooks()
        self._points = _Points(self._hooks, lambda: None, super().mount_points)
        for name in self.to_dict()["capabilities"]:
            self.register_capability(name, None)
        self.channels.clear()
        self.session_state.clear()
        self.loader = self.approval_system = self.display_system = None

    def marks(self) -> list[Any]:
        """What modules have left beside the mount points, to be compared: capabilities, contributors, cleanups."""
        contributors = [(channel, one["name"]) for channel, entries in self.channels.items() for one in entries]
        capabilities = {name: id(self.get_capability(name)) for name in self.to_dict()["capabilities"]}
        return [capabilities, contributors, len(self._cleanups), dict.fromkeys(self.session_state)]

    def _count(self, text: str, hook_name: str) -> None:
        limit, budget = self.injection_size_limit, self.injection_budget_per_turn
        if limit is not None and len(text) > limit:
            raise ValueError(f"Context injection exceeds {limit} characters")
        self._current_turn_injections += len(text) // _TOKEN
        if budget is not None and self._current_turn_injections > budget:
            logger.warning("hook %r: its texts for the model are more than the %s tokens of a turn", hook_name, budget)


class _Session:
    """What a coordinator of amplifier-core asks its session for."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.session_id = uuid4().hex
        self.parent_id = None
        self.config = config
        self.of: Callable[[], Any] = lambda: None

    @property
    def coordinator(self) -> Any:
        """Its coordinator."""
        return self.of()


class _Points(Points):
    """The mount points, kept the same in the dict that amplifier-core itself looks at."""

    def __init__(self, hooks: Any, changed: Callable[[], None], core: dict[str, Any]) -> None:
        super().__init__(hooks, changed)
        self._core = core
        core.update(self)

    def __setitem__(self, point: str, value: Any) -> None:
        super().__setitem__(point, value)
        self._core[point] = self[point]


class CoreLoader(ModuleLoader):
    """Loads modules through amplifier-core's own loader, which validates them and knows other languages than Python.

    What it has no way for, such as a module in a single file, is loaded natively; so is what does not pass its
    validation, which the log then says.
    """

    def __init__(self, coordinator: CoreCoordinator, search_paths: Sequence[str | Path] = ()) -> None:
        super().__init__(coordinator, search_paths)
        self.core = amplifier_core.ModuleLoader(_Found(self, coordinator))
        coordinator.loader = self.core

    async def find(
        self, module_id: str, hint: Any = None, coordinator: Any = None
    ) -> tuple[Callable[..., Any], Callable[[Any], Any] | None]:
        """A module's `mount`, and its `on_session_ready` where it has one. Raises as `load` does."""
        where = await self.locate(module_id, hint, coordinator)
        if isinstance(where, Path) and is_foreign(where):
            return partial(self._mounted, module_id, hint), None
        mount, ready = imported(where, module_id)
        known = inspect.iscoroutinefunction(mount) and _is_known(where, module_id)
        return (partial(self._validated, module_id, hint, mount) if known else mount), ready

    @property
    def waiting(self) -> int:
        """How many modules wait for `session_ready`."""
        return super().waiting + len(self.core.get_on_session_ready_queue())

    async def session_ready(self, coordinator: Any) -> list[str]:
        """Call `on_session_ready` of every loaded module, also of those that modules have loaded themselves."""
        self._ready += self.core.get_on_session_ready_queue()
        self.core.clear_on_session_ready_queue()
        return await super().session_ready(coordinator)

    async def _mounted(self, module_id: str, hint: Any, coordinator: Any, config: dict[str, Any]) -> Any:
        mount = await self.core.load(module_id, config, source_hint=hint, coordinator=coordinator)
        return await mount(coordinator)

    async def _validated(
        self, module_id: str, hint: Any, mount: Callable[..., Any], coordinator: Any, config: dict[str, Any]
    ) -> Any:
        """Validation mounts a module too, on a stand-in, so it has a configuration of its own."""
        try:
            await self.core.load(module_id, deepcopy(config), source_hint=hint, coordinator=coordinator)
        except ModuleValidationError as error:
            logger.warning("module %r is mounted, but amplifier-core would refuse it: %s", module_id, error)
        return await settled(mount(coordinator, config))


class _Found:
    """What amplifier-core's loader knows of a coordinator: the resolver, which answers with what was found here."""

    def __init__(self, loader: ModuleLoader, coordinator: Any) -> None:
        self._loader = loader
        self._coordinator = coordinator

    def get(self, mount_point: str) -> Any:
        """Itself, whatever is mounted: it asks the resolver that is."""
        return self

    async def async_resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> Any:
        """Where a module is. Raises amplifier-core's ModuleNotFoundError where it is for it to look."""
        try:
            where = await self._loader.locate(module_id, source_hint, self._coordinator)
        except ModuleNotFoundError as error:
            raise module_sources.ModuleNotFoundError(str(error)) from error
        if isinstance(where, EntryPoint):
            raise module_sources.ModuleNotFoundError(f"module '{module_id}' is an installed entry point")
        return SimpleNamespace(resolve=lambda: where)


def theirs(result: HookResult) -> Any:
    """A decision in amplifier-core's own class."""
    return amplifier_core.HookResult.model_validate(result.model_dump(exclude_unset=True))


def _is_known(where: Path | EntryPoint, module_id: str) -> bool:
    """Whether amplifier-core's loader finds a module there that it can also import, in every version."""
    name = f"amplifier_module_{module_id.replace('-', '_')}"
    return isinstance(where, Path) and (where / name / "__init__.py").is_file()
