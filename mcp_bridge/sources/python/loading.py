"""Importing somebody's Python files, and again after an edit."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from types import ModuleType

from mcp_bridge.contracts.errors import SourceError
from mcp_bridge.runtime.python_import import is_below, reported

_OURS = __name__.partition(".")[0]


def files(target: Path) -> list[Path]:
    """The files that a path stands for: itself, or a folder's Python files that do not begin with `_`."""
    if target.is_file():
        return [target]
    return sorted(path for path in target.glob("*.py") if not path.name.startswith("_"))


def load_file(path: Path) -> ModuleType:
    """Import a file. Its folder is importable, as for a script. Raises SourceError with file and line."""
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = _module_name(path)
    if name in sys.modules:  # a file beside it has imported it already
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SourceError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with reported(path, path.parent):
            spec.loader.exec_module(module)
    except SourceError:
        del sys.modules[name]
        raise
    return module


def _module_name(path: Path) -> str:
    """The name that files beside it import it by, unless that is somebody else's."""
    known = sys.modules.get(path.stem)
    taken = path.stem in sys.stdlib_module_names if known is None else getattr(known, "__file__", None) != str(path)
    return f"{path.stem}_{sha256(str(path).encode()).hexdigest()[:8]}" if taken else path.stem


def forget(root: Path) -> None:
    """Forget every module under `root`, so that it is read again; this package and installed ones stay."""
    importlib.invalidate_caches()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and is_below(file, root) and name.partition(".")[0] not in ("__main__", _OURS):
            del sys.modules[name]


@contextlib.contextmanager
def fresh() -> Iterator[None]:
    """Write no bytecode: an edit within the same second would be mistaken for the old file."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before
