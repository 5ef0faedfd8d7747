"""amplifier-core as the host of modules: its coordinator, with the guarantees of the native one, and its loader.

Only this file imports amplifier_core. It is imported late, and only for a session on that host.
"""

from __future__ import annotations

import inspect
import logging
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import amplifier_core
from amplifier_core import module_sources
from amplifier_core.loader import ModuleValidationError

from mcp_bridge._integrations.amplifier.coordinator import CLEANUP_TIMEOUT, BaseCoordinator, MountPoints, SessionObject
from mcp_bridge._integrations.amplifier.errors import ModuleNotFoundError
from mcp_bridge._integrations.amplifier.hook_decisions import get_injections, parse_hook_result
from mcp_bridge._integrations.amplifier.hooks import Handler, HookRegistry
from mcp_bridge._integrations.amplifier.loader import LoadedModule, ModuleLoader, import_located_module
from mcp_bridge._integrations.amplifier.models import HookResult
from mcp_bridge._integrations.amplifier.module_import import is_foreign
from mcp_bridge._runtime.third_party import resolve_awaitable

logger = logging.getLogger("mcp_bridge.amplifier")

# The name of the bridge's handlers in amplifier-core's registry.
_RELAY_NAME = "mcp-bridge"
# amplifier-core estimates tokens in the same way.
_CHARACTERS_PER_TOKEN = 4


class CoreHooks(HookRegistry):
    """The bridge's registry of hooks, which replaces that of amplifier-core.

    amplifier-core emits some events itself, to its own registry. They are relayed to the hooks in this one.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._core: Any = None
        self._relayed: set[str] = set()

    def relay_from(self, core: Any) -> None:
        """Relay the events of amplifier-core's registry to the hooks that are registered from now on."""
        self._core = core

    def register(self, event: str, handler: Handler, priority: int = 0, name: str | None = None) -> Callable[[], None]:
        unregister = super().register(event, handler, priority, name)
        if self._core is not None and event not in self._relayed:
            self._relayed.add(event)
            self._core.register(event, self._relay, 0, _RELAY_NAME)
        return unregister

    on = register

    async def _relay(self, event: str, data: dict[str, Any]) -> Any:
        return to_core_result(await self.emit(event, data))


class CoreCoordinator(BaseCoordinator, amplifier_core.ModuleCoordinator):  # type: ignore[misc]
    """A coordinator of amplifier-core with the hooks and mount points of the bridge.

    amplifier-core allows a call if one of its hooks fails, and the bridge denies it. Capabilities, contributors,
    cancellation, `session_state`, injection limits and the systems for approval and display are amplifier-core's own.
    `config` and `on_change` are those of the native coordinator.
    """

    def __new__(
        cls,
        config: dict[str, Any],
        hooks: CoreHooks,
        on_change: Callable[[], None] = lambda: None,
        session: SessionObject | None = None,
    ) -> Any:
        """amplifier-core reads the configuration from a session object."""
        session = session or SessionObject(config)
        coordinator = super().__new__(cls, session)
        session.get_coordinator = weakref.ref(coordinator)
        return coordinator

    def __init__(
        self,
        config: dict[str, Any],
        hooks: CoreHooks,
        on_change: Callable[[], None] = lambda: None,
        session: SessionObject | None = None,
    ) -> None:
        # `__new__` has initialized the base class, which is written in Rust.
        hooks.set_default_fields(session_id=self.session_id, parent_id=self.parent_id)
        hooks.relay_from(super().hooks)
        self._hooks = hooks
        self._points = _CoreMountPoints(hooks, on_change, super().mount_points)
        self._cleanups = []
        self._capability_callbacks = {}

    @property
    def hooks(self) -> HookRegistry:  # type: ignore[override]
        return self._hooks

    @property
    def mount_points(self) -> dict[str, Any]:  # type: ignore[override]
        return self._points

    def register_capability(self, name: str, value: Any) -> None:
        super().register_capability(name, value)
        if name in self._capability_callbacks:
            self._capability_callbacks[name](value)

    def contributors(self, channel: str) -> Iterable[tuple[str, Callable[[], Any]]]:
        return [(entry["name"], entry["callback"]) for entry in self.channels.get(channel, ())]

    async def process_hook_result(self, result: Any, event: str, hook_name: str = "unknown") -> Any:
        """Apply a decision as the native coordinator does, within the limits of amplifier-core.

        Raises ValueError for an injected text longer than `session.injection_size_limit`.
        """
        decision = parse_hook_result(result) or HookResult()
        for injection in get_injections(decision):
            self._count_injection(injection.content, hook_name)
        outcome = await super().process_hook_result(decision, event, hook_name)
        return result if outcome is decision else to_core_result(outcome)

    async def cleanup(self, timeout: float = CLEANUP_TIMEOUT) -> None:
        await super().cleanup(timeout)
        self._release_modules()

    def _release_modules(self) -> None:
        """Release all objects in amplifier-core, because garbage collection does not find cycles through it."""
        self._capability_callbacks.clear()
        super().hooks.unregister(_RELAY_NAME)
        self._hooks = CoreHooks()
        self._points = _CoreMountPoints(self._hooks, lambda: None, super().mount_points)
        # Capabilities cannot be removed.
        for name in self.to_dict()["capabilities"]:
            self.register_capability(name, None)
        self.channels.clear()
        self.session_state.clear()
        self.loader = self.approval_system = self.display_system = None

    def _count_injection(self, text: str, hook_name: str) -> None:
        limit, budget = self.injection_size_limit, self.injection_budget_per_turn
        if limit is not None and len(text) > limit:
            raise ValueError(f"Context injection exceeds {limit} characters")
        self._current_turn_injections += len(text) // _CHARACTERS_PER_TOKEN
        if budget is not None and self._current_turn_injections > budget:
            logger.warning("hook %r injects more than %s tokens in one turn", hook_name, budget)


class _CoreMountPoints(MountPoints):
    """Mount points with a mirror in amplifier-core's own dict."""

    def __init__(self, hooks: Any, on_change: Callable[[], None], core: dict[str, Any]) -> None:
        super().__init__(hooks, on_change)
        self._core = core
        core.update(self)

    def __setitem__(self, point: str, value: Any) -> None:
        super().__setitem__(point, value)
        self._core[point] = self[point]


class CoreLoader(ModuleLoader):
    """Loads modules with amplifier-core's loader. It validates them, and runs other languages than Python.

    If that loader cannot load a module, for example a single file, the bridge imports it. If a module fails the
    validation, the failure is logged, and the module is mounted anyway, because the validators accept less than the
    contracts.
    """

    def __init__(self, coordinator: CoreCoordinator, search_paths: Sequence[str | Path] = ()) -> None:
        super().__init__(coordinator, search_paths)
        self.core = amplifier_core.ModuleLoader(_ResolverAdapter(self, coordinator))
        coordinator.loader = self.core

    async def import_module(self, module_id: str, hint: Any = None, coordinator: Any = None) -> LoadedModule:
        """Import a module. If possible, its `mount` uses amplifier-core's loader."""
        location = await self.locate(module_id, hint, coordinator)
        if isinstance(location, Path) and is_foreign(location):
            return LoadedModule(partial(self._mount_foreign, module_id, hint))
        module = import_located_module(location, module_id)
        # Every version of amplifier-core's loader can find and import such a package.
        name = f"amplifier_module_{module_id.replace('-', '_')}"
        is_package = isinstance(location, Path) and (location / name / "__init__.py").is_file()
        if is_package and inspect.iscoroutinefunction(module.mount):
            return replace(module, mount=partial(self._mount_validated, module_id, hint, module.mount))
        return module

    @property
    def pending_count(self) -> int:
        return super().pending_count + len(self.core.get_on_session_ready_queue())

    async def run_session_ready(self, coordinator: Any) -> list[str]:
        """Call `on_session_ready` of every loaded module, including those loaded by other modules."""
        self._ready += self.core.get_on_session_ready_queue()
        self.core.clear_on_session_ready_queue()
        return await super().run_session_ready(coordinator)

    async def _mount_foreign(self, module_id: str, hint: Any, coordinator: Any, config: dict[str, Any]) -> Any:
        mount = await self.core.load(module_id, config, source_hint=hint, coordinator=coordinator)
        return await mount(coordinator)

    async def _mount_validated(
        self, module_id: str, hint: Any, mount: Callable[..., Any], coordinator: Any, config: dict[str, Any]
    ) -> Any:
        """Validate and mount a module."""
        try:
            with _hide_load_errors():
                # The validation mounts the module on another coordinator, and its `mount` may change the configuration.
                await self.core.load(module_id, deepcopy(config), source_hint=hint, coordinator=coordinator)
        except ModuleValidationError as error:
            level = logging.DEBUG if module_id in self.reported else logging.WARNING
            self.reported.add(module_id)
            logger.log(level, "mounting module %r, which fails the validation of amplifier-core: %s", module_id, error)
        return await resolve_awaitable(mount(coordinator, config))


class _ResolverAdapter:
    """Replaces a coordinator and its resolver, so that amplifier-core's loader uses the bridge's locations."""

    def __init__(self, loader: ModuleLoader, coordinator: Any) -> None:
        self._loader = loader
        self._coordinator = coordinator

    def get(self, mount_point: str) -> Any:
        """Return this object: amplifier-core's loader gets nothing but the resolver from its coordinator."""
        return self

    async def async_resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> Any:
        """Locate a module. Raises amplifier-core's ModuleNotFoundError if its loader finds the module without help."""
        try:
            location = await self._loader.locate(module_id, source_hint, self._coordinator)
        except ModuleNotFoundError as error:
            raise module_sources.ModuleNotFoundError(str(error)) from error
        if not isinstance(location, Path):
            raise module_sources.ModuleNotFoundError(f"module '{module_id}' is an installed entry point")
        return SimpleNamespace(resolve=lambda: location)


def to_core_result(result: HookResult) -> Any:
    return amplifier_core.HookResult.model_validate(result.model_dump(exclude_unset=True))


@contextmanager
def _hide_load_errors() -> Iterator[None]:
    """Hide the errors in the log of amplifier-core's loader. It also raises them, and the caller logs them."""
    core_logger = logging.getLogger(ModuleValidationError.__module__)

    def is_no_error(record: logging.LogRecord) -> bool:
        return record.levelno < logging.ERROR

    core_logger.addFilter(is_no_error)
    try:
        yield
    finally:
        core_logger.removeFilter(is_no_error)
