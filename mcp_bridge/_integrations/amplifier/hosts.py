"""Chooses the host that mounts the modules of a plan, and creates its sessions.

There are two hosts: the native one, and amplifier-core for modules that are written against it. All modules of a plan
are mounted on the same host, so it must be chosen before the first module is imported. With `host: auto`, the files of
all modules are parsed, without running them, to find imports of amplifier-core. An import does not count if the module
works without it:

    try:
        from amplifier_core import ToolResult
    except ImportError:
        ToolResult = dict
"""

from __future__ import annotations

import ast
import importlib.util
import logging
import sys
import weakref
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Literal

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._integrations.amplifier.coordinator import ModuleCoordinator, SessionObject
from mcp_bridge._integrations.amplifier.errors import ModuleLoadError, ModuleNotFoundError
from mcp_bridge._integrations.amplifier.hooks import HookRegistry
from mcp_bridge._integrations.amplifier.loader import RESOLVER_POINT, ModuleLoader
from mcp_bridge._integrations.amplifier.module_import import CORE_EXTRA, CORE_PACKAGE, find_import_target, is_foreign
from mcp_bridge._integrations.amplifier.module_sources import PackageSource
from mcp_bridge._integrations.amplifier.mount_plan import (
    MountPlan,
    PlannedModule,
    PlanProblem,
    normalize_config,
    read_plan,
)
from mcp_bridge._integrations.amplifier.session import ModuleSession
from mcp_bridge._runtime.event_loop import is_on_asyncio

logger = logging.getLogger("mcp_bridge.amplifier")

Host = Literal["native", "core"]
INSTALL_HINT = f"Run: pip install '{CORE_EXTRA}'"
_IMPORT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


async def choose_host(setting: Literal["auto"] | Host, plan: MountPlan, resolver: Any, folders: Sequence[Path]) -> Host:
    """Return the host for a plan; `auto` is amplifier-core if a module is written against it.

    Raises SourceError if that host is unavailable.
    """
    if setting == "native":
        return "native"
    modules: list[str] = []
    if setting == "auto":
        specs = (*plan.list_modules(), *plan.list_agent_modules())
        for spec, location in await _locate_modules(specs, resolver, folders):
            # If a module cannot be found, mounting it reports the problem.
            if not isinstance(location, Exception) and needs_core(location, spec.module):
                modules.append(spec.module)
        if not modules:
            return "native"
    if not is_core_installed():
        if setting == "core":
            raise SourceError(f"host: the settings require amplifier-core, which is not installed. {INSTALL_HINT}")
        # The plan may have other modules. The import of each of these modules fails, and is reported.
        names = ", ".join(modules)
        logger.warning("%s: written against %s, which is not installed. %s", names, CORE_PACKAGE, INSTALL_HINT)
        return "native"
    if not is_on_asyncio():
        requirer = ", ".join(modules) or "the settings"
        raise SourceError(
            f"host: amplifier-core, required by {requirer}, runs on asyncio only. "
            "Run the bridge on asyncio, or set `host: native`"
        )
    return "core"


async def find_missing_modules(plan: MountPlan, resolver: Any, folders: Sequence[Path]) -> list[str]:
    """Return a line for each module of the plan's agents that cannot be found. Nothing is imported or mounted."""
    problems = []
    for spec, location in await _locate_modules(plan.list_agent_modules(), resolver, folders):
        if isinstance(location, Exception):
            problems.append(f"{PlanProblem(place=spec.place, problem='').path}: {location}")
    return problems


async def _locate_modules(
    specs: Sequence[PlannedModule], resolver: Any, folders: Sequence[Path]
) -> list[tuple[PlannedModule, Path | EntryPoint | Exception]]:
    """Return where each module is, or why it cannot be found."""
    coordinator = ModuleCoordinator()
    coordinator.mount(RESOLVER_POINT, resolver)
    loader = ModuleLoader(coordinator, folders)
    locations: list[tuple[PlannedModule, Path | EntryPoint | Exception]] = []
    for spec in specs:
        try:
            locations.append((spec, await loader.locate(spec.module, spec.source, coordinator)))
        except (ModuleNotFoundError, ModuleLoadError) as error:
            locations.append((spec, error))
    return locations


def create_session(
    host: Host,
    config: dict[str, Any],
    resolver: Any,
    folders: Sequence[Path],
    on_change: Callable[[], None],
    ids: tuple[str | None, str | None] = (None, None),
    **hooks: Any,
) -> ModuleSession:
    """Create a session on a host.

    `ids` are the ids of the session and of its parent. `hooks` are the options of its hook registry.
    """
    session = SessionObject(config, *ids)
    if host == "core":
        from mcp_bridge._integrations.amplifier.core import CoreCoordinator, CoreHooks, CoreLoader

        coordinator: Any = CoreCoordinator(config, CoreHooks(**hooks), on_change, session)
        loader: ModuleLoader = CoreLoader(coordinator, folders)
    else:
        coordinator = ModuleCoordinator(session, config=config, hooks=HookRegistry(**hooks), on_change=on_change)
        session.get_coordinator = weakref.ref(coordinator)
        loader = ModuleLoader(coordinator, folders)
    session.config = normalize_config(config, read_plan(config)[0])
    coordinator.mount(RESOLVER_POINT, resolver)
    return ModuleSession(coordinator, loader)


def is_core_installed() -> bool:
    """Return whether amplifier-core is installed, without importing it."""
    if CORE_PACKAGE in sys.modules:
        return sys.modules[CORE_PACKAGE] is not None
    return importlib.util.find_spec(CORE_PACKAGE) is not None


def needs_core(location: Path | EntryPoint, module_id: str) -> bool:
    """Return whether the files of a module import or declare amplifier-core; none of them is run.

    Imports for type checkers, and those whose ImportError is caught, do not count.
    """
    try:
        path = _find_code(location, module_id)
    except (ModuleNotFoundError, ModuleLoadError, OSError):
        # Mounting the module reports the problem.
        return False
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return is_foreign(path) or any(_file_imports_core(file) for file in files)


def _find_code(location: Path | EntryPoint, module_id: str) -> Path:
    """Return the file or the package with the code of a module."""
    if not isinstance(location, Path):
        return PackageSource(location.module.partition(".")[0]).resolve()
    if is_foreign(location):
        return location
    target = find_import_target(location, module_id)
    code = target.folder.joinpath(*target.name.split("."))
    return code if code.is_dir() else code.with_suffix(".py")


def _file_imports_core(file: Path) -> bool:
    try:
        text = file.read_bytes()
        # Parsing takes much longer than searching for the name, and most files do not contain it.
        return CORE_PACKAGE.encode() in text and _imports_core(ast.parse(text).body)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return False


def _imports_core(statements: list[ast.stmt]) -> bool:
    """Return whether one of these statements, or a statement nested in them, needs amplifier-core for an import."""
    for statement in statements:
        names: list[str] = []
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            names = [statement.module or ""]
        if any(name.partition(".")[0] == CORE_PACKAGE for name in names):
            return True
        if _imports_core(_list_nested_statements(statement)):
            return True
    return False


def _list_nested_statements(statement: ast.stmt) -> list[ast.stmt]:
    """Return the nested statements whose imports must succeed when this statement runs."""
    if isinstance(statement, ast.Try) and any(_catches_import_error(handler) for handler in statement.handlers):
        return statement.orelse + statement.finalbody
    nested: list[ast.stmt] = []
    is_for_type_checkers = isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.dump(statement.test)
    if not is_for_type_checkers:
        nested += getattr(statement, "body", [])
    for field in ("handlers", "cases"):
        for block in getattr(statement, field, []):
            nested += block.body
    for field in ("orelse", "finalbody"):
        nested += getattr(statement, field, [])
    return nested


def _catches_import_error(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    names = [node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)]
    return not _IMPORT_ERRORS.isdisjoint(names)
