"""Importing what the settings name, from a module or a file, with errors that say where and what to do."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcp_bridge.contracts.errors import SourceError
from mcp_bridge.runtime.python_import import place_of
from mcp_bridge.runtime.third_party import described

INSTALL = "Run: pip install 'xaibo>=0.3,<0.4'"
_HOW = "Write it as package.module:Name or path/to/file.py:Name"


def named(reference: str, directory: Path) -> Any:
    """What `package.module:Name` or `file.py:Name` stands for; modules in `directory` can be imported.

    Raises SourceError saying what is not there, or at which file and line an import ends.
    """
    head, attribute = _parts(reference)
    if head.endswith(".py"):
        path = (directory / head).resolve()
        directory, head = path.parent, path.stem
        if not path.is_file():
            raise SourceError(f"{path}: no such file")
    module = imported(head, directory)
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise SourceError(f"provider '{reference}': {_where(module, head)} has no '{attribute}'")
        found = getattr(found, part)
    return found


def imported(name: str, directory: Path) -> Any:
    """A module by its dotted name. Raises SourceError."""
    importable(directory)
    with reported(f"'{name}' cannot be imported"):
        module = importlib.import_module(name)
    file = getattr(module, "__file__", None)
    beside = directory / f"{name}.py"
    if "." not in name and beside.is_file() and file is not None and Path(file).resolve() != beside:
        raise SourceError(f"{beside}: the name '{name}' is taken by {file}. Rename the file")
    return module


def importable(directory: Path) -> None:
    """Have modules in this folder found, as for a script in it."""
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    importlib.invalidate_caches()


@contextlib.contextmanager
def reported(what: str) -> Iterator[None]:
    """Run a stranger's module: what it prints goes to stderr, what it raises becomes a SourceError."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except SourceError:
        raise
    except (Exception, SystemExit) as error:
        missing = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
        if missing == "xaibo":
            raise SourceError(f"{what}: xaibo is not installed. {INSTALL}") from error
        place = place_of(error, _is_theirs)
        raise SourceError(f"{place + ': ' if place else ''}{what}: {described(error)}") from error


def _parts(reference: str) -> tuple[str, str]:
    """The module and the name in it; also written with dots alone, as Xaibo does."""
    head, _, attribute = reference.rpartition(":" if ":" in reference else ".")
    if not head or not all(part.isidentifier() for part in attribute.split(".")):
        raise SourceError(f"provider '{reference}' names nothing. {_HOW}")
    return head, attribute


def _where(module: Any, name: str) -> str:
    return getattr(module, "__file__", None) or f"the module '{name}'"


def _is_theirs(file: str) -> bool:
    return not file.startswith("<") and "site-packages" not in file
