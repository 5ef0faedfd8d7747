"""Finds and imports the code of a module at a path: a package, the folder of a project with a package, or a file."""

from __future__ import annotations

import contextlib
import importlib
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from mcp_bridge._integrations.amplifier.errors import ModuleLoadError
from mcp_bridge._integrations.amplifier.module_sources import ENTRY_POINT_GROUP
from mcp_bridge._runtime.python_import import run_spec
from mcp_bridge._runtime.requirements import suggest_package
from mcp_bridge._runtime.third_party import describe_error, is_own_cancellation
from mcp_bridge._version import DISTRIBUTION

CORE_PACKAGE = "amplifier_core"
CORE_EXTRA = f"{DISTRIBUTION}[amplifier]"
_PREFIX = "amplifier_module_"
# The file in which a module declares its language (amplifier-core, `resolve_module`).
_MANIFEST = "amplifier.toml"


@dataclass(frozen=True, slots=True)
class ImportTarget:
    """A Python module to import: its dotted name, the folder for `sys.path`, and the name of its mount function."""

    folder: Path
    name: str
    mount: str = "mount"


def import_module_at(path: Path, module_id: str, *, redirects_stdout: bool = True) -> tuple[ModuleType, str]:
    """Import the module at a path; return it with the name of its mount function.

    Its folder is appended to `sys.path` for the imports of the module. With `redirects_stdout`, its prints go to
    stderr. Raises ModuleLoadError.
    """
    target = find_import_target(path, module_id)
    top = target.name.partition(".")[0]
    # The files may be newer than the caches of the import system, for example after `mcp-bridge module lock`.
    importlib.invalidate_caches()
    spec = PathFinder.find_spec(top, [str(target.folder)])
    if spec is None or spec.origin is None:
        raise ModuleLoadError(f"module '{module_id}': {target.folder} has nothing that can be imported as '{top}'")
    # Append, so that the folder never shadows other modules.
    if str(target.folder) not in sys.path:
        sys.path.append(str(target.folder))
    with wrap_load_errors(module_id, redirects_stdout=redirects_stdout):
        _import_spec(spec, module_id)
        return importlib.import_module(target.name), target.mount


def find_import_target(path: Path, module_id: str) -> ImportTarget:
    """Find what to import at a path. Raises ModuleLoadError if there is nothing to import.

    In the folder of a project, the entry point in pyproject.toml names the module. Without one, it is the package with
    the usual name for this id, or the only package.
    """
    if path.is_file():
        return ImportTarget(path.parent, path.stem)
    if (path / "__init__.py").is_file():
        return _find_package_root(path)
    name, mount = _read_entry_point(path, module_id)
    roots = [root for root in (path, path / "src") if root.is_dir()]
    python_name = module_id.replace("-", "_")
    candidates = [name] if name else [_PREFIX + python_name, python_name]
    for root in roots:
        for candidate in candidates:
            if _has_module(root, candidate):
                return ImportTarget(root, candidate, mount)
    packages = []
    for root in roots:
        packages += [(root, file.parent.name) for file in sorted(root.glob("*/__init__.py"))]
    prefixed_packages = [(root, package) for root, package in packages if package.startswith(_PREFIX)]
    if prefixed_packages:
        packages = prefixed_packages
    if len(packages) == 1 and not name:
        root, package = packages[0]
        return ImportTarget(root, package)
    raise ModuleLoadError(
        f"module '{module_id}': {path} has no package {' or '.join(candidates)}. "
        f'Declare it in pyproject.toml under [project.entry-points."{ENTRY_POINT_GROUP}"]'
    )


def is_foreign(path: Path) -> bool:
    """Return whether a module is written in another language than Python. Only amplifier-core can run such a module."""
    try:
        manifest = tomllib.loads((path / _MANIFEST).read_text("utf-8"))["module"]
        return str(manifest.get("transport", "python")) != "python"
    except OSError:
        return path.is_dir() and any(path.glob("*.wasm"))
    except (KeyError, AttributeError, ValueError):
        return False


@contextlib.contextmanager
def wrap_load_errors(
    module_id: str, doing: str = "cannot be imported", *, redirects_stdout: bool = True
) -> Iterator[None]:
    """Run third-party code. Its errors become a ModuleLoadError. With `redirects_stdout`, its prints go to stderr."""
    try:
        with contextlib.redirect_stdout(sys.stderr) if redirects_stdout else contextlib.nullcontext():
            yield
    except ModuleLoadError:
        raise
    except BaseException as error:
        if is_own_cancellation(error):
            raise
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == CORE_PACKAGE:
            raise ModuleLoadError(
                f"module '{module_id}' needs {CORE_PACKAGE}, which is not installed. Run: pip install '{CORE_EXTRA}'"
            ) from error
        raise ModuleLoadError(f"module '{module_id}' {doing}: {describe_load_error(error)}") from error


def describe_load_error(error: BaseException) -> str:
    """Return type and text of an error, and what to install if an import has failed."""
    return f"{describe_error(error)}{suggest_package(error)}"


def _import_spec(spec: ModuleSpec, module_id: str) -> None:
    """Import a module under its own name, unless it is imported already.

    Raises ModuleLoadError if another module has been imported under this name.
    """
    module = sys.modules.get(spec.name)
    if module is None:
        run_spec(spec)
        return
    file = getattr(module, "__file__", None) or "Python itself"
    if Path(file).resolve() != Path(str(spec.origin)).resolve():
        raise ModuleLoadError(f"module '{module_id}': the name '{spec.name}' is taken by {file}. Rename its package")


def _find_package_root(path: Path) -> ImportTarget:
    """Return the target of a package. Inside another package, its name has several parts."""
    names = [path.name]
    while (path.parent / "__init__.py").is_file():
        path = path.parent
        names.insert(0, path.name)
    return ImportTarget(path.parent, ".".join(names))


def _read_entry_point(path: Path, module_id: str) -> tuple[str, str]:
    """Return the module and mount function of the entry point in pyproject.toml for an id, or of the only one.

    Without such an entry point, the module is an empty string.
    """
    try:
        project = tomllib.loads((path / "pyproject.toml").read_text("utf-8"))
        points = project["project"]["entry-points"][ENTRY_POINT_GROUP]
        target = points.get(module_id, "")
        if not target and len(points) == 1:
            target = next(iter(points.values()))
    except (OSError, KeyError, TypeError, ValueError, AttributeError):
        return "", "mount"
    name, _, mount = str(target).partition(":")
    return name.strip(), mount.strip() or "mount"


def _has_module(root: Path, name: str) -> bool:
    place = root.joinpath(*name.split("."))
    return (place / "__init__.py").is_file() or place.with_suffix(".py").is_file()
