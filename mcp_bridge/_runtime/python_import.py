"""Imports third-party Python code: modules by name, files, and attributes of modules.

Errors name the file and the line of the user's code. Output of the code goes to stderr, because stdout may carry the
protocol.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._contracts.similar_names import find_similar_name
from mcp_bridge._runtime.requirements import suggest_package
from mcp_bridge._runtime.third_party import describe_error, get_error_text, is_own_cancellation

_PACKAGE = Path(__file__).parent.parent
_HINTS = {
    "attempted relative import with no known parent package": "Serve it as a module of its package, with the setting "
    "`module`",
    "asyncio.run() cannot be called from a running event loop": "The event loop is already running. Call it in a tool "
    "or a lifespan",
}
"""Advice about errors of files that run as scripts."""


def add_to_path(directory: Path) -> None:
    """Make the modules of a directory importable, as Python does for the directory of a script."""
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    importlib.invalidate_caches()


def import_module(name: str, directory: Path) -> ModuleType:
    """Import a module by its dotted name, and make `directory` importable.

    Raises SourceError with file and line, also if another module of this name hides a file in `directory`.
    """
    add_to_path(directory)
    with report_errors(f"'{name}' cannot be imported", root=directory):
        module = importlib.import_module(name)
    hidden_file = directory / f"{name}.py"
    file = getattr(module, "__file__", None)
    if "." not in name and file is not None and hidden_file.is_file() and not hidden_file.samefile(file):
        raise SourceError(f"{hidden_file}: the name '{name}' is taken by {file}. Rename the file")
    return module


def import_file(path: Path) -> ModuleType:
    """Import a file, and make its directory importable. Raises SourceError with file and line.

    The name of the module is that of the file, so that it exists only once if files in the same folder import it too.
    If another module has this name, a hash makes the name unique.
    """
    add_to_path(path.parent)
    name = path.stem
    module = sys.modules.get(name)
    if module is None:
        is_free = name not in sys.stdlib_module_names
    else:
        is_free = getattr(module, "__file__", None) == str(path)
    if not is_free:
        from hashlib import sha256

        name = f"{name}_{sha256(str(path).encode()).hexdigest()[:8]}"
    # This or another file of the folder has imported the module already.
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SourceError(f"{path}: not a Python file")
    with report_errors(root=path.parent, fallback=str(path)):
        return run_spec(spec)


def run_spec(spec: ModuleSpec) -> ModuleType:
    """Import the module of a spec under its own name. After an error, the module is forgotten."""
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)  # type: ignore[union-attr]
    except BaseException:
        sys.modules.pop(spec.name, None)
        raise
    return module


def import_attribute(reference: str, directory: Path) -> Any:
    """Return the object of `module:attribute`. The attribute may have dots, and `directory` is importable.

    Raises SourceError with the wrong part.
    """
    name, _, path = reference.partition(":")
    if not name or not path:
        raise SourceError(f"'{reference}': write it as module:attribute")
    value: Any = import_module(name, directory)
    where = f"module '{name}'"
    for attribute in path.split("."):
        try:
            value = getattr(value, attribute)
        except AttributeError:
            match = find_similar_name(attribute, [name for name in dir(value) if not name.startswith("_")])
            hint = "Correct the name" if match is None else f"Did you mean '{match}'?"
            raise SourceError(f"'{reference}': {where} has no '{attribute}'. {hint}") from None
        except BaseException as error:
            # A property may raise anything.
            if is_own_cancellation(error):
                raise
            raise SourceError(
                f"'{reference}': '{attribute}' of {where} cannot be read: {describe_error(error)}"
            ) from error
        where = f"'{attribute}'"
    return value


def forget_modules(root: Path) -> None:
    """Remove all modules below `root` from `sys.modules`, so that they are read again. Installed modules stay."""
    importlib.invalidate_caches()
    package = __name__.partition(".")[0]
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and is_below(file, root) and name.partition(".")[0] not in ("__main__", package):
            del sys.modules[name]


@contextlib.contextmanager
def without_bytecode() -> Iterator[None]:
    """Write no bytecode inside the block, because Python would not notice an edit of the file in the same second."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


@contextlib.contextmanager
def report_errors(doing: str = "", *, root: Path | None = None, fallback: str = "") -> Iterator[None]:
    """Run third-party code: its output goes to stderr, and its errors become SourceErrors.

    Args:
        doing: The beginning of the message, such as "'x' cannot be imported".
        root: The folder of the user's own files, whose lines are named rather than those of libraries. With None, all
            files except installed ones count as the user's.
        fallback: The place in the message if no line is known.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except SourceError:
        raise
    except (Exception, SystemExit) as error:
        text = error.msg if isinstance(error, SyntaxError) else get_error_text(error)
        message = f"{type(error).__name__}: {text or 'no message'}"
        if text in _HINTS:
            message = f"{message}. {_HINTS[text]}"
        message = f"{message}{suggest_package(error)}"
        if doing:
            message = f"{doing}: {message}"
        place = _find_place(error, root) or fallback
        if place:
            message = f"{place}: {message}"
        raise SourceError(message) from error


def is_below(file: str, root: Path | None) -> bool:
    """Whether a file is below `root`, or anywhere for None, and not part of an installed package."""
    if file.startswith("<") or "site-packages" in file:
        return False
    return root is None or Path(file).is_relative_to(root)


def _find_place(error: BaseException, root: Path | None) -> str:
    """Return the file and line to name in the message: of a syntax error, or of the user's innermost frame.

    If no frame is in the user's files below `root`, return the innermost frame outside of this package. Return an empty
    text if there is none, or if `root` is None.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    place = ""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if "importlib" in frame.filename or Path(frame.filename).is_relative_to(_PACKAGE):
            continue
        if is_below(frame.filename, root):
            return f"{frame.filename}:{frame.lineno}"
        if root is not None and not place:
            place = f"{frame.filename}:{frame.lineno}"
    return place
