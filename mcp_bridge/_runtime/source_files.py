"""Finds the imported files of Python code, without running the code.

Sandboxes mount these files, and bundles contain them.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path


def list_imports(code: bytes) -> Sequence[str]:
    """Return the imported top-level modules of code. Raises the errors of `ast.parse`."""
    names = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
    return tuple(dict.fromkeys(name.partition(".")[0] for name in names))


def find_source_files(root: Path, files: Iterable[Path] = (), modules: Iterable[str] = ()) -> Sequence[Path]:
    """Return the files and top-level modules, and all their imports from `root`, as files and folders of packages.

    Computed imports and packages without an `__init__.py` are not found.
    """
    sources: dict[Path, None] = {}
    pending = [*files, *_find_modules(root, modules)]
    while pending:
        path = pending.pop(0)
        if path in sources:
            continue
        sources[path] = None
        python_files = list(path.rglob("*.py")) if path.is_dir() else [path]
        for file in python_files:
            if file.suffix != ".py":
                continue
            # The import of the file will report an error in it. For deep nesting, the parser raises RecursionError
            # or MemoryError.
            with suppress(OSError, SyntaxError, ValueError, RecursionError, MemoryError):
                pending += _find_modules(root, list_imports(file.read_bytes()))
    return tuple(sources)


def contains_home(folder: Path) -> bool:
    """Whether a folder is the user's home, or above it."""
    home = Path(os.path.expanduser("~"))
    return home.is_absolute() and home.resolve().is_relative_to(folder)


def _find_modules(root: Path, names: Iterable[str]) -> Iterator[Path]:
    for name in names:
        spec = PathFinder.find_spec(name, [str(root)])
        # A folder without `__init__.py` has no origin.
        if spec is not None and spec.origin is not None:
            origin = Path(spec.origin)
            yield origin.parent if spec.submodule_search_locations is not None else origin
