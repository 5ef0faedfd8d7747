"""The host that mounts the modules of a plan: the native one, or amplifier-core for modules written against it."""

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
from mcp_bridge._integrations.amplifier.mount_plan import MountPlan, PlanProblem, normalize_config, read_plan
from mcp_bridge._integrations.amplifier.session import ModuleSession
from mcp_bridge._runtime.event_loop import is_on_asyncio

logger = logging.getLogger("mcp_bridge.amplifier")

Host = Literal["native", "core"]
INSTALL_HINT = f"Run: pip install '{CORE_EXTRA}'"
_IMPORT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


async def choose_host(wanted: Literal["auto"] | Host, plan: MountPlan, resolver: Any, folders: Sequence[Path]) -> Host:
    """Return the host for a plan; `auto` is amplifier-core if a module is written against it.

    Raises SourceError where that host is unavailable.
    """
    if wanted == "native":
        return "native"
    needing = [] if wanted == "core" else await _find_core_modules(plan, resolver, folders)
    if wanted == "auto" and not needing:
        return "native"
    if not is_core_installed():
        if wanted == "core":
            raise SourceError(f"host: the settings require amplifier-core, which is not installed. {INSTALL_HINT}")
        logger.warning(
            "%s: written against %s, which is not installed. %s", ", ".join(needing), CORE_PACKAGE, INSTALL_HINT
        )
        return "native"
    if not is_on_asyncio():
        requirer = ", ".join(needing) or "the settings"
        raise SourceError(
            f"host: amplifier-core, required by {requirer}, runs on asyncio only. "
            "Run the bridge on asyncio, or set `host: native`"
        )
    return "core"


def create_session(
    host: Host,
    config: dict[str, Any],
    resolver: Any,
    folders: Sequence[Path],
    changed: Callable[[], None],
    ids: tuple[str | None, str | None] = (None, None),
    **hooks: Any,
) -> ModuleSession:
    """Build a session on a host; `ids` are its own and its parent's, `hooks` are options of its hook registry."""
    session = SessionObject(config, *ids)
    if host == "core":
        from mcp_bridge._integrations.amplifier.core import CoreCoordinator, CoreHooks, CoreLoader

        coordinator: Any = CoreCoordinator(config, CoreHooks(**hooks), changed, session)
        loader: ModuleLoader = CoreLoader(coordinator, folders)
    else:
        coordinator = ModuleCoordinator(session, config=config, hooks=HookRegistry(**hooks), changed=changed)
        session.get_coordinator = weakref.ref(coordinator)
        loader = ModuleLoader(coordinator, folders)
    session.config = normalize_config(config, read_plan(config)[0])
    coordinator.mount(RESOLVER_POINT, resolver)
    return ModuleSession(coordinator, loader)


def is_core_installed() -> bool:
    """Whether amplifier-core is installed; it is not imported."""
    if CORE_PACKAGE in sys.modules:
        return sys.modules[CORE_PACKAGE] is not None
    return importlib.util.find_spec(CORE_PACKAGE) is not None


def needs_core(where: Path | EntryPoint, module_id: str) -> bool:
    """Whether the files of a module import or declare amplifier-core; none of them is run.

    Imports for type checkers, and those whose ImportError is caught, do not count.
    """
    try:
        path = _find_code(where, module_id)
    except (ModuleNotFoundError, ModuleLoadError, OSError):
        return False  # mounting the module reports the problem
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return is_foreign(path) or any(_has_core_import(file) for file in files)


async def _find_core_modules(plan: MountPlan, resolver: Any, folders: Sequence[Path]) -> list[str]:
    coordinator = ModuleCoordinator()
    coordinator.mount(RESOLVER_POINT, resolver)
    loader, found = ModuleLoader(coordinator, folders), []
    for spec in (*plan.list_modules(), *plan.list_agent_modules()):
        try:
            where = await loader.locate(spec.module, spec.source, coordinator)
        except (ModuleNotFoundError, ModuleLoadError):
            continue  # mounting the module reports the problem
        if needs_core(where, spec.module):
            found.append(spec.module)
    return found


async def find_missing_modules(plan: MountPlan, resolver: Any, folders: Sequence[Path]) -> list[str]:
    """Return a line for each module of the plan's agents that cannot be found. Nothing is imported or mounted."""
    coordinator = ModuleCoordinator()
    coordinator.mount(RESOLVER_POINT, resolver)
    loader, problems = ModuleLoader(coordinator, folders), []
    for spec in plan.list_agent_modules():
        try:
            await loader.locate(spec.module, spec.source, coordinator)
        except (ModuleNotFoundError, ModuleLoadError) as error:
            problems.append(f"{PlanProblem(place=spec.place, problem='').path}: {error}")
    return problems


def _find_code(where: Path | EntryPoint, module_id: str) -> Path:
    if not isinstance(where, Path):
        return PackageSource(where.module.partition(".")[0]).resolve()
    if is_foreign(where):
        return where
    place = find_import_target(where, module_id)
    code = place.folder.joinpath(*place.name.split("."))
    return code if code.is_dir() else code.with_suffix(".py")


def _has_core_import(file: Path) -> bool:
    try:
        text = file.read_bytes()
        return CORE_PACKAGE.encode() in text and _has_core_imports(ast.parse(text).body)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return False


def _has_core_imports(statements: list[ast.stmt]) -> bool:
    return any(_is_core_import(one) or _has_core_imports(_get_nested_statements(one)) for one in statements)


def _is_core_import(statement: ast.stmt) -> bool:
    names: list[str] = []
    if isinstance(statement, ast.Import):
        names = [alias.name for alias in statement.names]
    elif isinstance(statement, ast.ImportFrom) and not statement.level:
        names = [statement.module or ""]
    return any(name.partition(".")[0] == CORE_PACKAGE for name in names)


def _get_nested_statements(statement: ast.stmt) -> list[ast.stmt]:
    """Return the nested statements whose imports must succeed when this statement runs."""
    if isinstance(statement, ast.Try) and any(_is_import_guard(handler) for handler in statement.handlers):
        return [*statement.orelse, *statement.finalbody]
    nested: list[ast.stmt] = []
    if not (isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.dump(statement.test)):
        nested += getattr(statement, "body", [])
    for block in (*getattr(statement, "handlers", []), *getattr(statement, "cases", [])):
        nested += block.body
    return [*nested, *getattr(statement, "orelse", []), *getattr(statement, "finalbody", [])]


def _is_import_guard(handler: ast.ExceptHandler) -> bool:
    caught = handler.type
    return caught is None or any(isinstance(one, ast.Name) and one.id in _IMPORT_ERRORS for one in ast.walk(caught))
