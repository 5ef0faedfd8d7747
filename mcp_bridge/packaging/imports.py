"""What a Python file imports: files of its own project, which have to travel with it, and packages."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

from mcp_bridge._version import DISTRIBUTION
from mcp_bridge.contracts.errors import ConfigError

_OURS = __name__.partition(".")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imports:
    """What stands behind the imports of some files: files to be taken along, and the top names of packages."""

    files: Sequence[Path]
    packages: Sequence[str]


def followed(start: Iterable[Path], root: Path) -> Imports:
    """The given files, whatever they import from `root` and below, and the packages that come from elsewhere.

    A package of the project is taken whole. Raises ConfigError for a file that is not Python.
    """
    files: dict[Path, None] = {}
    packages: dict[str, None] = {}
    waiting = list(start)
    while waiting:
        path = waiting.pop(0)
        if path in files:
            continue
        files[path] = None
        for name in _imported(path) if path.suffix == ".py" else ():
            found = local(name, (path.parent, root))
            waiting += found
            if not found and not _is_known(name):
                packages[name] = None
    return Imports(files=tuple(files), packages=tuple(packages))


def local(name: str, folders: Iterable[Path]) -> Sequence[Path]:
    """The files of a module (its top name) that is in one of the folders; none where it is in none."""
    for folder in folders:
        if (folder / f"{name}.py").is_file():
            return (folder / f"{name}.py",)
        if (folder / name).is_dir() and any((folder / name).glob("*.py")):
            return tuple(sorted(path for path in (folder / name).rglob("*") if path.is_file()))
    return ()


def distributions_of(name: str) -> Sequence[str]:
    """The distributions that an installed package comes from, by the package's top name: several may share it."""
    return _distributions().get(name, ())


def _imported(path: Path) -> Sequence[str]:
    """The top names of what a file imports absolutely, each once."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # the latter for too many levels
        line = getattr(error, "lineno", None)
        raise ConfigError("not Python", path=str(path), line=line, hint="Mend it first") from None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", path=str(path)) from None
    names: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0]: None for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names[node.module.partition(".")[0]] = None
    return tuple(names)


def _is_known(name: str) -> bool:
    """Whether it is there wherever the bridge is."""
    from packaging.utils import canonicalize_name

    return (
        name in sys.stdlib_module_names
        or name == _OURS
        or not _own_needs().isdisjoint(map(canonicalize_name, distributions_of(name)))
    )


@cache
def _distributions() -> dict[str, list[str]]:
    return {name: list(dict.fromkeys(found)) for name, found in packages_distributions().items()}


@cache
def _own_needs() -> frozenset[str]:
    """The distributions that are installed along with the bridge."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    try:
        needs = [Requirement(text) for text in requires(DISTRIBUTION) or ()]
    except PackageNotFoundError:
        needs = []
    return frozenset(
        canonicalize_name(each.name) for each in needs if each.marker is None or "extra" not in str(each.marker)
    )
