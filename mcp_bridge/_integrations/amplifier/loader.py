"""ModuleLoader: finds, imports and mounts a module by its id (Module Source Protocol, "Loader Injection Contract")."""

from __future__ import annotations

import importlib
import inspect
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, TypeVar

import anyio

from mcp_bridge._integrations.amplifier.coordinator import ModuleCoordinator
from mcp_bridge._integrations.amplifier.errors import ModuleLoadError, ModuleNotFoundError
from mcp_bridge._integrations.amplifier.module_import import (
    CORE_EXTRA,
    describe_load_error,
    import_module_at,
    is_foreign,
    wrap_load_errors,
)
from mcp_bridge._integrations.amplifier.module_sources import ENTRY_POINT_GROUP
from mcp_bridge._runtime.third_party import describe_error, is_own_cancellation, resolve_awaitable

logger = logging.getLogger("mcp_bridge.amplifier")

T = TypeVar("T")
RESOLVER_POINT = "module-source-resolver"
OWN_MODULES = {
    "context-persistent": "contexts.persistent",
    "context-simple": "contexts.simple",
    "loop-basic": "loops.basic",
    "loop-streaming": "loops.streaming",
    "provider-sampling": "providers.sampling_provider",
    "provider-scripted": "providers.scripted_provider",
    "tool-task": "agent.task_tool",
}
"""The modules of this package by their ids. An installed module, or one with a source, comes first."""
_MOUNT_FAILED = "cannot be mounted: mount failed"


class ModuleLoader:
    """Loads modules and mounts them on a coordinator.

    The mounted resolver locates a module. Without a resolver, or if it does not know the module and no source is given,
    the loader looks for the entry point of that name in the group `amplifier.modules`, then in `search_paths` for
    `amplifier-module-ID`, or for a folder or file with the module's own name.

    `installed` has the known modules without a source. Loaders share it to look for each one only once, because this
    takes milliseconds. `step_timeout` limits, in seconds, each awaited step: the resolver, `mount` and
    `on_session_ready` (None: no limit). A blocking step, such as an import, cannot be interrupted. `failed_modules` has
    the modules with a failed `on_session_ready`, in the order of the lines of `run_session_ready`. `reported` has the
    modules with a logged failure of validation; loaders share it to log each one only once.
    """

    def __init__(self, coordinator: ModuleCoordinator | None = None, search_paths: Sequence[str | Path] = ()) -> None:
        self.coordinator = coordinator
        self.search_paths = [Path(path) for path in search_paths]
        self.installed: dict[str, Path | EntryPoint] = {}
        self.step_timeout: float | None = None
        self.failed_modules: list[str] = []
        self.reported: set[str] = set()
        self._ready: list[tuple[str, Callable[[Any], Any]]] = []

    async def load(
        self,
        module_id: str,
        config: dict[str, Any] | None = None,
        profile_source: Any = None,
        coordinator: ModuleCoordinator | None = None,
        *,
        source_hint: Any = None,
    ) -> Any:
        """Load a module, mount it, and return the result of its `mount`.

        Raises ModuleNotFoundError, or ModuleLoadError if the module cannot be imported or mounted.
        """
        target = coordinator if coordinator is not None else self.coordinator
        hint = source_hint if source_hint is not None else profile_source
        mount, ready = await self.find_mount(module_id, hint, target)
        # A synchronous `mount` runs here, an asynchronous one within the time limit below.
        with wrap_load_errors(module_id, doing=_MOUNT_FAILED):
            mounting = mount(target, dict(config or {}))
        what = f"module '{module_id}' cannot be mounted: its mount"
        result = await self._limit_time(_wait_for_mount(mounting, module_id), what)
        if ready is not None:
            self._ready.append((module_id, ready))
        return result

    async def find_mount(
        self, module_id: str, hint: Any = None, coordinator: Any = None
    ) -> tuple[Callable[..., Any], Callable[[Any], Any] | None]:
        """Return the same as `import_mount`. Raises as `load` does."""
        return import_mount(await self.locate(module_id, hint, coordinator), module_id)

    async def locate(self, module_id: str, hint: Any = None, coordinator: Any = None) -> Path | EntryPoint:
        """Find a module without importing it. Raises as `load` does."""
        resolver = None
        if coordinator is not None:
            with suppress(ValueError):
                resolver = coordinator.get(RESOLVER_POINT)
        if resolver is None:
            if hint is not None:
                logger.warning("no resolver is mounted: ignoring the source of module '%s'", module_id)
            return self._find_installed(module_id)
        try:
            resolving = resolve_module_path(resolver, module_id, hint)
            return await self._limit_time(resolving, f"module '{module_id}': its resolver")
        except ModuleNotFoundError as error:
            if hint is not None:
                raise
            return self._find_installed(module_id, error)

    @property
    def pending_count(self) -> int:
        """The number of modules waiting for `run_session_ready`."""
        return len(self._ready)

    async def run_session_ready(self, coordinator: Any) -> list[str]:
        """Call `on_session_ready` of every loaded module, once all are mounted; return a line for each failure."""
        problems, ready = [], self._ready
        self._ready, self.failed_modules = [], []
        for module_id, callback in ready:
            try:
                await self._limit_time(resolve_awaitable(callback(coordinator)), "it")
            except BaseException as error:
                if is_own_cancellation(error):
                    raise
                logger.exception("on_session_ready of module %r failed", module_id)
                problem = str(error) if isinstance(error, ModuleLoadError) else describe_load_error(error)
                problems.append(f"{module_id}: on_session_ready failed: {problem}")
                self.failed_modules.append(module_id)
        return problems

    async def _limit_time(self, step: Awaitable[T], what: str) -> T:
        with anyio.move_on_after(self.step_timeout):
            return await step
        raise ModuleLoadError(f"{what} timed out after {self.step_timeout:g} seconds (start_timeout)")

    def _find_installed(self, module_id: str, before: Exception | None = None) -> Path | EntryPoint:
        if module_id in self.installed:
            return self.installed[module_id]
        points = {entry.name: entry for entry in reversed(tuple(entry_points(group=ENTRY_POINT_GROUP)))}
        place = points.get(module_id) or self.search_folders(module_id)
        if place is None and module_id in OWN_MODULES:
            target = f"mcp_bridge._integrations.amplifier.{OWN_MODULES[module_id]}:mount"
            place = EntryPoint(module_id, target, ENTRY_POINT_GROUP)
        if place is not None:
            self.installed[module_id] = place
            return place
        installed_names = f" Installed are: {', '.join(sorted(points))}." if points else ""
        reason = f" ({before})" if before is not None else ""
        raise ModuleNotFoundError(
            f"module '{module_id}' is not an entry point of the group {ENTRY_POINT_GROUP}{reason}.{installed_names} "
            "Install it, or give its source"
        )

    def search_folders(self, module_id: str) -> Path | None:
        python = module_id.replace("-", "_")
        names = (f"amplifier-module-{module_id}", module_id, python, f"{python}.py")
        places = [folder / name for folder in self.search_paths for name in names]
        # Path.exists raises for names that are too long, so use os.path.
        return next((place for place in places if os.path.exists(place)), None)


AmplifierModuleLoader = ModuleLoader


async def resolve_module_path(resolver: Any, module_id: str, hint: Any) -> Path:
    """Return the path of a module from a sync or async resolver.

    Raises ModuleNotFoundError if the resolver does not know the module, ModuleLoadError for any other error.
    """
    try:
        resolve = getattr(resolver, "async_resolve", None) or resolver.resolve
        source = await resolve_awaitable(_call_resolver(resolve, module_id, hint))
        return Path(await resolve_awaitable(source.resolve()) if hasattr(source, "resolve") else source)
    except BaseException as error:
        if is_own_cancellation(error) or isinstance(error, ModuleLoadError):
            raise
        if type(error).__name__ == ModuleNotFoundError.__name__:
            # The class may be Python's, or from any package.
            raise ModuleNotFoundError(str(error)) from error
        raise ModuleLoadError(
            f"module '{module_id}': its source cannot be resolved: {describe_error(error)}"
        ) from error


def _call_resolver(resolve: Callable[..., Any], module_id: str, hint: Any) -> Any:
    """Pass the hint by each name that the resolver has, as amplifier-core does; else as the second argument."""
    try:
        names = {"source_hint", "profile_hint"} & set(inspect.signature(resolve).parameters)
    except (TypeError, ValueError):
        names = set()
    return resolve(module_id, **dict.fromkeys(names, hint)) if names else resolve(module_id, hint)


async def _wait_for_mount(mounting: Any, module_id: str) -> Any:
    try:
        return await resolve_awaitable(mounting)
    except BaseException as error:
        if is_own_cancellation(error):
            raise
        # This redirects stdout, so it must not span the await.
        with wrap_load_errors(module_id, doing=_MOUNT_FAILED):
            raise


def import_mount(where: Path | EntryPoint, module_id: str) -> tuple[Callable[..., Any], Callable[[Any], Any] | None]:
    """Import a module; return its `mount`, and its `on_session_ready` or None. Raises ModuleLoadError."""
    # Entry points have another class once importlib_metadata is imported, so check for the path.
    if not isinstance(where, Path):
        with wrap_load_errors(where.name):
            module, attribute = importlib.import_module(where.module), where.load()
        mount = attribute if where.attr else getattr(attribute, "mount", None)
        ready = _get_ready(module) or _get_ready(inspect.getmodule(mount))
        return _check_mount(mount, where.name, where.attr or "mount"), ready
    if is_foreign(where):
        raise ModuleLoadError(
            f"module '{module_id}' is not written in Python, and only amplifier-core can run it. Set `host: core`, and "
            f"run: pip install '{CORE_EXTRA}'"
        )
    module, name = import_module_at(where, module_id)
    return _check_mount(getattr(module, name, None), module_id, name), _get_ready(module)


def _check_mount(mount: object, module_id: str, name: str) -> Callable[..., Any]:
    if not callable(mount):
        raise ModuleLoadError(f"module '{module_id}' has no function '{name}(coordinator, config)'")
    return mount


def _get_ready(module: Any) -> Callable[[Any], Any] | None:
    ready = getattr(module, "on_session_ready", None)
    return ready if callable(ready) else None
