"""ModuleLoader: from a module's id to what it has mounted (Module Source Protocol, "Loader Injection Contract")."""

from __future__ import annotations

import importlib
import inspect
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import anyio

from mcp_bridge.amplifier.coordinator import ModuleCoordinator
from mcp_bridge.amplifier.errors import ModuleLoadError, ModuleNotFoundError
from mcp_bridge.amplifier.importing import EXTRA, explained, import_from
from mcp_bridge.amplifier.module_sources import GROUP
from mcp_bridge.amplifier.needing import is_foreign
from mcp_bridge.runtime.third_party import described, passes, settled

logger = logging.getLogger("mcp_bridge.amplifier")

RESOLVER = "module-source-resolver"


class ModuleLoader:
    """Loads modules and mounts them on a coordinator.

    The resolver that is mounted there says where a module is. Where none is mounted, or it does not know and no source
    was named, the module is the entry point of its name in the group `amplifier.modules`, and failing that in one of
    the folders `search_paths`, as `amplifier-module-ID`, or under its own name as a folder or a file.

    What a module awaits may take `patience` seconds (None: as long as it likes): where it is, its `mount`, its
    `on_session_ready`. What blocks, such as an import, cannot be stopped. `unready` are the modules whose
    `on_session_ready` failed, one for each line of `session_ready`.
    """

    def __init__(self, coordinator: ModuleCoordinator | None = None, search_paths: Sequence[str | Path] = ()) -> None:
        self.coordinator = coordinator
        self.search_paths = [Path(path) for path in search_paths]
        self.patience: float | None = None
        self.unready: list[str] = []
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
        """Load a module and mount it; what its `mount` answered.

        Raises ModuleNotFoundError where it is nowhere, ModuleLoadError where it cannot be imported or mounted.
        """
        where = coordinator if coordinator is not None else self.coordinator
        hint = source_hint if source_hint is not None else profile_source
        mount, ready = await self.find(module_id, hint, where)
        with explained(module_id, doing="cannot be mounted: mount failed"):
            answer = mount(where, dict(config or {}))
        answer = await self._in_time(_mounted(answer, module_id), f"module '{module_id}' cannot be mounted: its mount")
        if ready is not None:
            self._ready.append((module_id, ready))
        return answer

    async def find(
        self, module_id: str, hint: Any = None, coordinator: Any = None
    ) -> tuple[Callable[..., Any], Callable[[Any], Any] | None]:
        """A module's `mount`, and its `on_session_ready` where it has one. Raises as `load` does."""
        return imported(await self.locate(module_id, hint, coordinator), module_id)

    async def locate(self, module_id: str, hint: Any = None, coordinator: Any = None) -> Path | EntryPoint:
        """Where a module is; nothing of it is imported. Raises as `load` does."""
        resolver = None
        if coordinator is not None:
            with suppress(ValueError):
                resolver = coordinator.get(RESOLVER)
        if resolver is None:
            if hint is not None:
                logger.warning("no resolver is mounted, so the source of module '%s' is not looked at", module_id)
            return self._direct(module_id)
        try:
            path: Path = await self._in_time(resolved(resolver, module_id, hint), f"module '{module_id}': its resolver")
            return path
        except ModuleNotFoundError as error:
            if hint is not None:
                raise
            return self._direct(module_id, error)

    @property
    def waiting(self) -> int:
        """How many modules wait for `session_ready`."""
        return len(self._ready)

    async def session_ready(self, coordinator: Any) -> list[str]:
        """Call `on_session_ready` of every loaded module, once all are mounted; a line for each that failed."""
        failed, ready = [], self._ready
        self._ready, self.unready = [], []
        for module_id, each in ready:
            try:
                await self._in_time(settled(each(coordinator)), "it")
            except BaseException as error:
                if passes(error):
                    raise
                logger.exception("on_session_ready of module %r failed", module_id)
                told = str(error) if isinstance(error, ModuleLoadError) else described(error)
                failed.append(f"{module_id}: on_session_ready failed: {told}")
                self.unready.append(module_id)
        return failed

    async def _in_time(self, step: Awaitable[Any], what: str) -> Any:
        """What a step comes to. Raises ModuleLoadError where it takes too long."""
        with anyio.move_on_after(self.patience):
            return await step
        raise ModuleLoadError(f"{what} did not end within {self.patience:g} seconds (mount_timeout), and was given up")

    def _direct(self, module_id: str, before: Exception | None = None) -> Path | EntryPoint:
        found = {entry.name: entry for entry in reversed(entry_points(group=GROUP))}
        if module_id in found:
            return found[module_id]
        path = self.search(module_id)
        if path is not None:
            return path
        known = f" Installed are: {', '.join(sorted(found))}." if found else ""
        looked = f" ({before})" if before is not None else ""
        raise ModuleNotFoundError(
            f"module '{module_id}' is no entry point of the group {GROUP}{looked}.{known} "
            "Install it, or give its source"
        )

    def search(self, module_id: str) -> Path | None:
        """Where a module is in the folders that are searched; None where it is in none."""
        python = module_id.replace("-", "_")
        names = (f"amplifier-module-{module_id}", module_id, python, f"{python}.py")
        places = [folder / name for folder in self.search_paths for name in names]
        return next((place for place in places if os.path.exists(place)), None)  # Path's own raises for long names


AmplifierModuleLoader = ModuleLoader


async def resolved(resolver: Any, module_id: str, hint: Any) -> Path:
    """The path that a resolver, sync or async, of either spelling, has for a module.

    Raises ModuleNotFoundError where it does not know, ModuleLoadError for anything else that it raises.
    """
    try:
        resolve = getattr(resolver, "async_resolve", None) or resolver.resolve
        source = await settled(_asked(resolve, module_id, hint))
        return Path(await settled(source.resolve()) if hasattr(source, "resolve") else source)
    except BaseException as error:
        if passes(error) or isinstance(error, ModuleLoadError):
            raise
        if type(error).__name__ == ModuleNotFoundError.__name__:  # of any package, or Python's own
            raise ModuleNotFoundError(str(error)) from error
        raise ModuleLoadError(f"module '{module_id}': its source cannot be resolved: {described(error)}") from error


def _asked(resolve: Callable[..., Any], module_id: str, hint: Any) -> Any:
    """The hint goes by both names where a resolver has them, as amplifier-core does; else it is the second argument."""
    try:
        named = {"source_hint", "profile_hint"} & set(inspect.signature(resolve).parameters)
    except (TypeError, ValueError):
        named = set()
    return resolve(module_id, **dict.fromkeys(named, hint)) if named else resolve(module_id, hint)


async def _mounted(answer: Any, module_id: str) -> Any:
    try:
        return await settled(answer)
    except BaseException as error:
        if passes(error):
            raise
        with explained(module_id, doing="cannot be mounted: mount failed"):
            raise


def imported(where: Path | EntryPoint, module_id: str) -> tuple[Callable[..., Any], Callable[[Any], Any] | None]:
    """The `mount` of the module that is there, and its `on_session_ready`. Raises ModuleLoadError saying why not."""
    if not isinstance(where, Path):
        return _of_entry(where)
    if is_foreign(where):
        raise ModuleLoadError(
            f"module '{module_id}' is not written in Python, and amplifier-core alone runs it. Set `host: core`, and "
            f"run: pip install '{EXTRA}'"
        )
    return _of_path(where, module_id)


def _of_path(path: Path, module_id: str) -> tuple[Callable[..., Any], Callable[[Any], Any] | None]:
    module, name = import_from(path, module_id)
    return _mount_of(getattr(module, name, None), module_id, name), _ready_of(module)


def _of_entry(entry: EntryPoint) -> tuple[Callable[..., Any], Callable[[Any], Any] | None]:
    """What an entry point names: a module's `mount`, or the module. Other things that it has to say are beside that."""
    with explained(entry.name):
        module, loaded = importlib.import_module(entry.module), entry.load()
    mount = loaded if entry.attr else getattr(loaded, "mount", None)
    return _mount_of(mount, entry.name, entry.attr or "mount"), _ready_of(module) or _ready_of(inspect.getmodule(mount))


def _mount_of(mount: Any, module_id: str, name: str) -> Callable[..., Any]:
    if not callable(mount):
        raise ModuleLoadError(f"module '{module_id}' has no function '{name}(coordinator, config)'")
    made: Callable[..., Any] = mount
    return made


def _ready_of(module: Any) -> Callable[[Any], Any] | None:
    ready = getattr(module, "on_session_ready", None)
    return ready if callable(ready) else None
