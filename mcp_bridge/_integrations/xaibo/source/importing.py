"""Imports for Xaibo: the references of its configurations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._runtime.python_import import import_attribute

_FORMAT = "Write it as package.module:Name or path/to/file.py:Name"


def import_reference(reference: str, directory: Path) -> Any:
    """Return the object of the reference `package.module:Name`, `package.module.Name` or `file.py:Name`.

    Modules in `directory` are importable. Raises SourceError with the part that is wrong, or the place of the failure.
    """
    head, _, attribute = reference.rpartition(":" if ":" in reference else ".")
    if not head or not all(name.isidentifier() for name in attribute.split(".")):
        raise SourceError(f"provider '{reference}' names nothing. {_FORMAT}")
    if head.endswith(".py"):
        path = (directory / head).resolve()
        directory, head = path.parent, path.stem
        if not path.is_file():
            raise SourceError(f"{path}: no such file")
    return import_attribute(f"{head}:{attribute}", directory)
