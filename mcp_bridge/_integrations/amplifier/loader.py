"""ModuleLoader: finds, imports and mounts a module by its id (Module Source Protocol, "Loader Injection Contract")."""

from __future__ import annotations

import importlib
import inspect
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
from mcp_bridge._runtime.signatures import get_signature
from mcp_bridge._runtime.third_party import describe_error, is_own_cancellation, resolve_awaitable

logger = logging.getLogger("mcp_bridge.amplifier")

T = TypeVar("T")
RESOLVER_POINT = "module-source-resolver"
_OWN_MODULES = {
    "context-persistent": "contexts.persistent",
    "context-simple": "contexts.simple",
    "loop-basic": "loops.basic",
    "loop-streaming": "loops.streaming",
    "provider-sampling": "providers.sampling_provider",
    "provider-scripted": "providers.scripted_provider",
    "tool-task": "agent.task_tool",
}
"""The modules of this package by their ids. An installed module, or one with a source, takes precedence."""
_MOUNT_FAILED = "cannot be mounted: mount failed"


@dataclass(frozen=True, slots=True)
class LoadedModule:
    """An imported module: its functions for the coordinator, and its declared type, or None."""

    mount: Callable[..., Any]
    on_session_ready: Callable[[Any], Any] | None = None
    type: Any = None


class ModuleLoader:
    """Loads modules and mounts them on a coordinator.

    The mounted resolver locates a module. Without a resolver, or if it does not know the module and no source is given,
    the loader looks for the entry point of that name in the group `amplifier.modules`, then in `search_paths` for
    `amplifier-module-ID`, or for a folder or file with the module's own name.

    Attributes:
        installed: Where the modules without a source are. Loaders share this dict, because a search takes milliseconds.
        step_timeout: The seconds for each awaited step: the resolver, `mount` and `on_session_ready`. None for no
            limit. A blocking step, such as an import, cannot be interrupted.
        failed_modules: The modules with a failed `on_session_ready`, in the order of the lines from
            `run_session_ready`.
        reported: The modules whose failed validation was logged. Loaders share this set to log each module once.
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
        module = await self.import_module(module_id, hint, target)
        # A synchronous `mount` runs here, an asynchronous one within the time limit below.
        with wrap_load_errors(module_id, doing=_MOUNT_FAILED):
            mounting = module.mount(target, dict(config or {}))
        subject = f"module '{module_id}' cannot be mounted: its mount"
        result = await self._limit_time(_wait_for_mount(mounting, module_id), subject)
        if module.on_session_ready is not None:
            self._ready.append((module_id, module.on_session_ready))
        return result

    async def import_module(self, module_id: str, hint: Any = None, coordinator: Any = None) -> LoadedModule:
        """Find and import a module without mounting it. Raises as `load` does."""
        return import_located_module(await self.locate(module_id, hint, coordinator), module_id)

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
        problems = []
        pending = self._ready
        self._ready = []
        self.failed_modules = []
        for module_id, callback in pending:
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

    async def _limit_time(self, step: Awaitable[T], subject: str) -> T:
        """Wait for a step. Raises ModuleLoadError about the subject after the timeout."""
        with anyio.move_on_after(self.step_timeout):
            return await step
        raise ModuleLoadError(f"{subject} timed out after {self.step_timeout:g} seconds (start_timeout)")

    def _find_installed(self, module_id: str, resolver_error: Exception | None = None) -> Path | EntryPoint:
        if module_id in self.installed:
            return self.installed[module_id]
        # If two packages have a module of this name, the first one wins, as in an import.
        points = {entry.name: entry for entry in reversed(tuple(entry_points(group=ENTRY_POINT_GROUP)))}
        place = points.get(module_id) or self.search_folders(module_id)
        if place is None and module_id in _OWN_MODULES:
            target = f"mcp_bridge._integrations.amplifier.{_OWN_MODULES[module_id]}:mount"
            place = EntryPoint(module_id, target, ENTRY_POINT_GROUP)
        if place is not None:
            self.installed[module_id] = place
            return place
        installed_names = f" Installed are: {', '.join(sorted(points))}." if points else ""
        reason = f" ({resolver_error})" if resolver_error is not None else ""
        raise ModuleNotFoundError(
            f"module '{module_id}' is not an entry point of the group {ENTRY_POINT_GROUP}{reason}.{installed_names} "
            "Install it, or give its source"
        )

    def search_folders(self, module_id: str) -> Path | None:
        python_name = module_id.replace("-", "_")
        for folder in self.search_paths:
            for name in (f"amplifier-module-{module_id}", module_id, python_name, f"{python_name}.py"):
                # Path.exists raises for names that are too long, so use os.path.
                if os.path.exists(folder / name):
                    return folder / name
        return None


AmplifierModuleLoader = ModuleLoader


async def resolve_module_path(resolver: Any, module_id: str, hint: Any) -> Path:
    """Return the path of a module from a sync or async resolver.

    Raises ModuleNotFoundError if the resolver does not know the module, ModuleLoadError for any other error.
    """
    try:
        resolve = getattr(resolver, "async_resolve", None) or resolver.resolve
        source = await resolve_awaitable(_call_resolver(resolve, module_id, hint))
        if hasattr(source, "resolve"):
            source = await resolve_awaitable(source.resolve())
        return Path(source)
    except BaseException as error:
        if is_own_cancellation(error) or isinstance(error, ModuleLoadError):
            raise
        # The class may be Python's, or from any package.
        if type(error).__name__ == ModuleNotFoundError.__name__:
            raise ModuleNotFoundError(str(error)) from error
        raise ModuleLoadError(
            f"module '{module_id}': its source cannot be resolved: {describe_error(error)}"
        ) from error


def _call_resolver(resolve: Callable[..., Any], module_id: str, hint: Any) -> Any:
    """Call a resolver with a hint.

    amplifier-core has renamed the parameter `profile_hint` to `source_hint`. The hint is passed by each of these names
    that the resolver has, else as the second argument.
    """
    try:
        names = {"source_hint", "profile_hint"} & set(get_signature(resolve).parameters)
    except (TypeError, ValueError):
        names = set()
    if not names:
        return resolve(module_id, hint)
    return resolve(module_id, **dict.fromkeys(names, hint))


async def _wait_for_mount(mounting: Any, module_id: str) -> Any:
    try:
        return await resolve_awaitable(mounting)
    except BaseException as error:
        if is_own_cancellation(error):
            raise
        # `wrap_load_errors` redirects stdout, so its block must not contain the await above.
        with wrap_load_errors(module_id, doing=_MOUNT_FAILED):
            raise


def import_located_module(
    location: Path | EntryPoint, module_id: str, *, redirects_stdout: bool = True
) -> LoadedModule:
    """Import the module at a location. With `redirects_stdout`, its prints go to stderr. Raises ModuleLoadError."""
    # Entry points have another class once importlib_metadata is imported, so check for the path.
    if not isinstance(location, Path):
        name = location.attr or "mount"
        with wrap_load_errors(location.name, redirects_stdout=redirects_stdout):
            module = importlib.import_module(location.module)
            # An entry point without an attribute is the module itself.
            mount = location.load() if location.attr else getattr(module, "mount", None)
    elif is_foreign(location):
        raise ModuleLoadError(
            f"module '{module_id}' is not written in Python, and only amplifier-core can run it. Set `host: core`, and "
            f"run: pip install '{CORE_EXTRA}'"
        )
    else:
        module, name = import_module_at(location, module_id, redirects_stdout=redirects_stdout)
        mount = getattr(module, name, None)
    if not callable(mount):
        raise ModuleLoadError(f"module '{module_id}' has no function '{name}(coordinator, config)'")
    module_type = getattr(module, "__amplifier_module_type__", None)
    # A package may re-export the `mount` of one of its modules.
    for candidate in (module, inspect.getmodule(mount)):
        ready = getattr(candidate, "on_session_ready", None)
        if callable(ready):
            return LoadedModule(mount, ready, module_type)
    return LoadedModule(mount, None, module_type)
