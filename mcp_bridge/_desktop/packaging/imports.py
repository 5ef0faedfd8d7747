"""Follows the imports of Python files to other files of the project, and to packages."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._runtime.source_files import list_imports
from mcp_bridge._version import DISTRIBUTION

_map_distributions = cache(packages_distributions)
_OWN_PACKAGE = __name__.partition(".")[0]


def follow_imports(start: Iterable[Path], root: Path) -> tuple[Sequence[Path], Sequence[str]]:
    """Return the files with their imports from below `root`, and the packages of their other imports.

    All files of a package below `root` are included. Raises ConfigError if a file is not valid Python.
    """
    files: dict[Path, None] = {}
    packages: dict[str, None] = {}
    pending = list(start)
    while pending:
        path = pending.pop(0)
        if path in files:
            continue
        files[path] = None
        if path.suffix != ".py":
            continue
        for name in _list_imports(path):
            local_files = find_local_files(name, (path.parent, root))
            pending += local_files
            if not local_files and not _comes_with_bridge(name):
                packages[name] = None
    return tuple(files), tuple(packages)


def find_local_files(name: str, folders: Iterable[Path]) -> Sequence[Path]:
    """Find the files of a top-level module in the first folder that has it."""
    for folder in folders:
        if (folder / f"{name}.py").is_file():
            return (folder / f"{name}.py",)
        if (folder / name).is_dir() and any((folder / name).glob("*.py")):
            return tuple(sorted(path for path in (folder / name).rglob("*") if path.is_file()))
    return ()


def find_distributions(name: str) -> Sequence[str]:
    return tuple(dict.fromkeys(_map_distributions().get(name, ())))


def _list_imports(path: Path) -> Sequence[str]:
    # The parser raises RecursionError or MemoryError for code that is nested too deeply.
    try:
        return list_imports(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        raise ConfigError("this is not valid Python", path=str(path), line=line, hint="Fix it first") from None
    except OSError as error:
        raise ConfigError(f"cannot read: {error.strerror}", path=str(path)) from None


def _comes_with_bridge(name: str) -> bool:
    """Return whether a module is in the standard library, or is installed together with mcp-bridge."""
    from packaging.utils import canonicalize_name

    if name in sys.stdlib_module_names or name == _OWN_PACKAGE:
        return True
    distributions = map(canonicalize_name, find_distributions(name))
    return not _list_own_dependencies().isdisjoint(distributions)


@cache
def _list_own_dependencies() -> frozenset[str]:
    """Return the names of the packages required by mcp-bridge without extras."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    try:
        dependencies = [Requirement(text) for text in requires(DISTRIBUTION) or ()]
    except PackageNotFoundError:
        dependencies = []
    return frozenset(
        canonicalize_name(dependency.name)
        for dependency in dependencies
        if dependency.marker is None or "extra" not in str(dependency.marker)
    )
