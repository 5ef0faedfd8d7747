"""Which modules are written against amplifier-core, told from their files: nothing of them is run."""

from __future__ import annotations

import ast
import importlib.util
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

from mcp_bridge.amplifier.errors import ModuleLoadError
from mcp_bridge.amplifier.importing import CORE, place_of

_MANIFEST = "amplifier.toml"
"""Where a module says what language it is of (amplifier-core, `resolve_module`)."""


def needs_core(where: Path | EntryPoint, module_id: str) -> bool:
    """Whether a module is written against amplifier-core, by what its files import or declare.

    What is imported for type checkers alone, or does without where it is missing, does not count.
    """
    try:
        path = _package_of(where) if isinstance(where, EntryPoint) else _code_of(where, module_id)
    except (ModuleLoadError, ImportError, ValueError, OSError):
        return False  # mounting it will say what is wrong
    if path is None:
        return False
    return is_foreign(path) or any(_imports_core(file) for file in _files(path))


def is_foreign(path: Path) -> bool:
    """Whether a module is of another language than Python, which amplifier-core alone knows how to run."""
    try:
        declared = tomllib.loads((path / _MANIFEST).read_text("utf-8"))["module"]
        return str(declared.get("transport", "python")) != "python"
    except OSError:
        return path.is_dir() and any(path.glob("*.wasm"))
    except (KeyError, AttributeError, ValueError):
        return False


def _package_of(entry: EntryPoint) -> Path | None:
    spec = importlib.util.find_spec(entry.module.partition(".")[0])
    if spec is None or spec.origin is None:
        return None
    origin = Path(spec.origin)
    return origin.parent if origin.name == "__init__.py" else origin


def _code_of(path: Path, module_id: str) -> Path:
    """The file or the folder that has the module's code."""
    if is_foreign(path):
        return path
    place = place_of(path, module_id)
    code = place.folder.joinpath(*place.name.split("."))
    return code if code.is_dir() else code.with_suffix(".py")


def _files(path: Path) -> Iterator[Path]:
    return iter(sorted(path.rglob("*.py"))) if path.is_dir() else iter([path])


def _imports_core(file: Path) -> bool:
    try:
        text = file.read_bytes()
        return CORE.encode() in text and _imports(ast.parse(text).body)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return False


def _imports(statements: list[ast.stmt]) -> bool:
    return any(_is_import(one) or _imports(_below(one)) for one in statements)


def _is_import(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Import):
        return any(_is_core(alias.name) for alias in statement.names)
    return isinstance(statement, ast.ImportFrom) and not statement.level and _is_core(statement.module or "")


def _is_core(name: str) -> bool:
    return name.partition(".")[0] == CORE


def _below(statement: ast.stmt) -> list[ast.stmt]:
    """What is in a statement that runs whenever that does, and needs what it imports."""
    if isinstance(statement, ast.Try) and any(_catches_imports(handler) for handler in statement.handlers):
        return [*statement.orelse, *statement.finalbody]
    found: list[ast.stmt] = []
    if not (isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.dump(statement.test)):
        found += getattr(statement, "body", [])
    for handler in getattr(statement, "handlers", []):
        found += handler.body
    for case in getattr(statement, "cases", []):
        found += case.body
    return [*found, *getattr(statement, "orelse", []), *getattr(statement, "finalbody", [])]


def _catches_imports(handler: ast.ExceptHandler) -> bool:
    names = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
    caught = handler.type
    return caught is None or any(isinstance(one, ast.Name) and one.id in names for one in ast.walk(caught))
