"""Imports third-party Python, with errors that name file and line."""

from __future__ import annotations

import contextlib
import importlib
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

from mcp_bridge.contracts.errors import SourceError

_OURS = str(Path(__file__).parent.parent)


def load_module(name: str, directory: Path) -> ModuleType:
    """Import a module by its dotted name; `directory` is importable. Raises SourceError with file and line."""
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    with reported(name, directory):
        return importlib.import_module(name)


@contextlib.contextmanager
def reported(what: Path | str, root: Path) -> Iterator[None]:
    """Run somebody's code: what it prints goes to stderr, what it raises becomes a SourceError.

    `what` is named where no line of theirs is to blame; files below `root` are theirs.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (Exception, SystemExit) as error:
        place = place_of(error, lambda file: is_below(file, root)) or place_of(error, lambda _: True) or str(what)
        raise SourceError(f"{place}: {type(error).__name__}: {_text(error)}") from error


def is_below(file: str, root: Path) -> bool:
    """Whether a file is somebody's own under `root`, rather than installed there."""
    return "site-packages" not in file and Path(file).is_relative_to(root)


def _text(error: BaseException) -> str:
    return (error.msg if isinstance(error, SyntaxError) else str(error)) or "no message"


def place_of(error: BaseException, theirs: Callable[[str], bool]) -> str:
    """File and line: where the syntax is wrong, else the innermost line of a file that is theirs; or nothing."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    own = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "importlib" not in frame.filename and not frame.filename.startswith(_OURS) and theirs(frame.filename)
    ]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else ""
