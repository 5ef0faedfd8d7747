"""Importing a module from where it is: a package, a folder with one, a single file."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from mcp_bridge._version import DISTRIBUTION
from mcp_bridge.amplifier.errors import ModuleLoadError
from mcp_bridge.amplifier.module_sources import GROUP
from mcp_bridge.runtime.third_party import described, passes

CORE = "amplifier_core"
EXTRA = f"{DISTRIBUTION}[amplifier]"
_PREFIX = "amplifier_module_"


@dataclass(frozen=True, slots=True)
class Place:
    """Where to import a module from: a folder, a dotted name in it, and what in it mounts the module."""

    folder: Path
    name: str
    mount: str = "mount"


def import_from(path: Path, module_id: str, *, aside: bool = True) -> tuple[ModuleType, str]:
    """The module at a path, and what its `mount` is called. Raises ModuleLoadError saying what is wrong.

    Its folder is searched from then on, after every other, for what the module needs. What it prints goes `aside`.
    """
    place = place_of(path, module_id)
    top = place.name.partition(".")[0]
    importlib.invalidate_caches()
    spec = PathFinder.find_spec(top, [str(place.folder)])
    if spec is None or spec.origin is None:
        raise ModuleLoadError(f"module '{module_id}': {place.folder} has nothing that can be imported as '{top}'")
    if str(place.folder) not in sys.path:
        sys.path.append(str(place.folder))
    with explained(module_id, aside=aside):
        _import(spec, module_id)
        return importlib.import_module(place.name), place.mount


def place_of(path: Path, module_id: str) -> Place:
    """Where to import from. Raises ModuleLoadError where there is nothing to import."""
    if path.is_file():
        return Place(path.parent, path.stem)
    if (path / "__init__.py").is_file():
        return _package(path)
    name, mount = _declared(path, module_id)
    roots = [root for root in (path, path / "src") if root.is_dir()]
    wanted = [name] if name else [_PREFIX + _python(module_id), _python(module_id)]
    for root in roots:
        for each in wanted:
            if _is_there(root, each):
                return Place(root, each, mount)
    packages = [(root, one.parent.name) for root in roots for one in sorted(root.glob("*/__init__.py"))]
    chosen = [(root, each) for root, each in packages if each.startswith(_PREFIX)] or packages
    if len(chosen) == 1 and not name:
        return Place(*chosen[0])
    raise ModuleLoadError(
        f"module '{module_id}': {path} has no package {' or '.join(wanted)}. "
        f'Name it in pyproject.toml under [project.entry-points."{GROUP}"]'
    )


@contextlib.contextmanager
def explained(module_id: str, doing: str = "cannot be imported", *, aside: bool = True) -> Iterator[None]:
    """Run somebody's module: what it prints goes `aside`, to stderr, what it raises becomes a ModuleLoadError."""
    try:
        with contextlib.redirect_stdout(sys.stderr) if aside else contextlib.nullcontext():
            yield
    except ModuleLoadError:
        raise
    except BaseException as error:
        if passes(error):
            raise
        if isinstance(error, ImportError) and (error.name or "").partition(".")[0] == CORE:
            raise ModuleLoadError(
                f"module '{module_id}' needs {CORE}, which is not installed. Run: pip install '{EXTRA}'"
            ) from error
        raise ModuleLoadError(f"module '{module_id}' {doing}: {described(error)}") from error


def _import(spec: ModuleSpec, module_id: str) -> None:
    """Import what `spec` found, under its own name, unless it is there already. Nothing else can have that name."""
    known = sys.modules.get(spec.name)
    if known is not None:
        where = getattr(known, "__file__", None) or "Python itself"
        if Path(where).resolve() != Path(str(spec.origin)).resolve():
            raise ModuleLoadError(
                f"module '{module_id}': the name '{spec.name}' is taken by {where}. Rename its package"
            )
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)  # type: ignore[union-attr]
    except BaseException:
        sys.modules.pop(spec.name, None)
        raise


def _package(path: Path) -> Place:
    """A package by its whole name, also where it is in another one."""
    names = [path.name]
    while (path.parent / "__init__.py").is_file():
        path = path.parent
        names.insert(0, path.name)
    return Place(path.parent, ".".join(names))


def _declared(path: Path, module_id: str) -> tuple[str, str]:
    """What pyproject.toml names for the module's entry point, or for the only one: a module, and its `mount`."""
    try:
        declared = tomllib.loads((path / "pyproject.toml").read_text("utf-8"))
        points = declared["project"]["entry-points"][GROUP]
        target = points.get(module_id) or (next(iter(points.values())) if len(points) == 1 else "")
    except (OSError, KeyError, TypeError, ValueError, AttributeError):
        return "", "mount"
    name, _, mount = str(target).partition(":")
    return name.strip(), mount.strip() or "mount"


def _is_there(root: Path, name: str) -> bool:
    place = root.joinpath(*name.split("."))
    return (place / "__init__.py").is_file() or place.with_suffix(".py").is_file()


def _python(module_id: str) -> str:
    return module_id.replace("-", "_")
