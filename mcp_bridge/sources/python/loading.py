"""Importing somebody's Python: files and modules, with errors that name file and line, and again after an edit."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from types import ModuleType

from mcp_bridge.contracts.errors import SourceError

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
        with _reported(path, path.parent):
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


def load_module(name: str, directory: Path) -> ModuleType:
    """Import a module by its dotted name; `directory` is importable. Raises SourceError with file and line."""
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    with _reported(name, directory):
        return importlib.import_module(name)


def forget(root: Path) -> None:
    """Forget every module under `root`, so that it is read again; this package and installed ones stay."""
    importlib.invalidate_caches()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and _is_below(file, root) and name.partition(".")[0] not in ("__main__", _OURS):
            del sys.modules[name]


@contextlib.contextmanager
def fresh() -> Iterator[None]:
    """Write no bytecode: an edit within the same second would be mistaken for the old file."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


@contextlib.contextmanager
def _reported(what: Path | str, root: Path) -> Iterator[None]:
    """Run somebody's module: what it prints goes to stderr, what it raises becomes a SourceError."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (Exception, SystemExit) as error:
        place = _place(error, root) or str(what)
        raise SourceError(f"{place}: {type(error).__name__}: {_text(error)}") from error


def _text(error: BaseException) -> str:
    return (error.msg if isinstance(error, SyntaxError) else str(error)) or "no message"


def _place(error: BaseException, root: Path) -> str:
    """File and line: where the syntax is wrong, else the innermost line of their own, else of anybody's."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "importlib" not in frame.filename and frame.filename != __file__
    ]
    own = [frame for frame in frames if _is_below(frame.filename, root)] or frames
    return f"{own[-1].filename}:{own[-1].lineno}" if own else ""


def _is_below(file: str, root: Path) -> bool:
    """Whether a file is somebody's own under `root`, rather than installed there."""
    return "site-packages" not in file and Path(file).is_relative_to(root)
