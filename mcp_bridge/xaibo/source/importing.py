"""Imports for Xaibo: the references of its configurations, and what to do where xaibo is missing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcp_bridge.contracts.errors import SourceError
from mcp_bridge.runtime import python_import

INSTALL = "Run: pip install 'xaibo>=0.3,<0.4'"
_FORMAT = "Write it as package.module:Name or path/to/file.py:Name"


def import_reference(reference: str, directory: Path) -> Any:
    """Return what `package.module:Name`, `package.module.Name` or `file.py:Name` refers to.

    Modules in `directory` are importable. Raises SourceError that says which part is wrong, or where an import fails.
    """
    head, _, attribute = reference.rpartition(":" if ":" in reference else ".")
    if not head or not all(part.isidentifier() for part in attribute.split(".")):
        raise SourceError(f"provider '{reference}' names nothing. {_FORMAT}")
    if head.endswith(".py"):
        path = (directory / head).resolve()
        directory, head = path.parent, path.stem
        if not path.is_file():
            raise SourceError(f"{path}: no such file")
    with _explain_missing_xaibo(f"'{head}' cannot be imported"):
        return python_import.import_attribute(f"{head}:{attribute}", directory)


@contextlib.contextmanager
def report_errors(doing: str) -> Iterator[None]:
    """Run third-party code: what it prints goes to stderr, and what it raises becomes a SourceError."""
    with _explain_missing_xaibo(doing), python_import.report_errors(doing):
        yield


@contextlib.contextmanager
def _explain_missing_xaibo(doing: str) -> Iterator[None]:
    try:
        yield
    except SourceError as error:
        cause = error.__cause__
        if isinstance(cause, ModuleNotFoundError) and (cause.name or "").partition(".")[0] == "xaibo":
            raise SourceError(f"{doing}: xaibo is not installed. {INSTALL}") from cause
        raise
