"""Which host mounts the modules of a plan: the native one, or amplifier-core where a module is written against it."""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from mcp_bridge.amplifier.coordinator import ModuleCoordinator
from mcp_bridge.amplifier.errors import ModuleLoadError, ModuleNotFoundError
from mcp_bridge.amplifier.hooks import HookRegistry
from mcp_bridge.amplifier.importing import CORE, EXTRA
from mcp_bridge.amplifier.loader import RESOLVER, ModuleLoader
from mcp_bridge.amplifier.needing import needs_core
from mcp_bridge.amplifier.plan import Plan
from mcp_bridge.amplifier.session import Session
from mcp_bridge.contracts.errors import SourceError
from mcp_bridge.runtime.event_loop import on_asyncio

logger = logging.getLogger("mcp_bridge.amplifier")

Host = Literal["native", "core"]
INSTALL = f"Run: pip install '{EXTRA}'"


async def chosen(wanted: Literal["auto"] | Host, plan: Plan, resolver: Any, folders: Sequence[Path]) -> Host:
    """The host for a plan: the one that is wanted, else amplifier-core where a module is written against it.

    Raises SourceError where that host cannot be.
    """
    if wanted == "native":
        return "native"
    needing = [] if wanted == "core" else await _needing(plan, resolver, folders)
    if wanted == "auto" and not needing:
        return "native"
    if not installed():
        if wanted == "core":
            raise SourceError(f"host: amplifier-core is to mount the modules, but is not installed. {INSTALL}")
        logger.warning("%s: written against %s, which is not installed. %s", ", ".join(needing), CORE, INSTALL)
        return "native"
    if not on_asyncio():
        who = f"for {', '.join(needing)}" if needing else "as the settings say"
        raise SourceError(
            f"host: amplifier-core, {who}, runs on asyncio alone. Run the bridge there, or set `host: native`"
        )
    return "core"


def session_on(
    host: Host,
    config: dict[str, Any],
    resolver: Any,
    folders: Sequence[Path],
    changed: Callable[[], None],
    **hooks: Any,
) -> Session:
    """A session on a host that was chosen, not begun; `hooks` are options of its registry."""
    if host == "core":
        from mcp_bridge.amplifier.core import CoreCoordinator, CoreHooks, CoreLoader

        coordinator: Any = CoreCoordinator(config, CoreHooks(**hooks), changed)
        loader: ModuleLoader = CoreLoader(coordinator, folders)
    else:
        coordinator = ModuleCoordinator(config=config, hooks=HookRegistry(**hooks), changed=changed)
        loader = ModuleLoader(coordinator, folders)
    coordinator.mount(RESOLVER, resolver)
    return Session(coordinator, loader)


def installed() -> bool:
    """Whether amplifier-core is there; it is not imported."""
    if CORE in sys.modules:
        return sys.modules[CORE] is not None
    return importlib.util.find_spec(CORE) is not None


async def _needing(plan: Plan, resolver: Any, folders: Sequence[Path]) -> list[str]:
    """The modules that are written against amplifier-core. Where one cannot be found, mounting it will say so."""
    coordinator = ModuleCoordinator()
    coordinator.mount(RESOLVER, resolver)
    loader, found = ModuleLoader(coordinator, folders), []
    for spec in plan.everything():
        try:
            where = await loader.locate(spec.module, spec.source, coordinator)
        except (ModuleNotFoundError, ModuleLoadError):
            continue
        if needs_core(where, spec.module):
            found.append(spec.module)
    return found
