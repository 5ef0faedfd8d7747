"""Local references of a schema: JSON Pointers (RFC 6901) behind a #."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DIGITS = 10
"""No list has an index of so many; Python refuses to read some thousand."""


def resolve(reference: str, root: Any) -> Any:
    """What a reference such as `#/$defs/city` leads to from the schema's root; None where that is nothing here."""
    if not reference.startswith("#"):
        return None
    node = root
    for part in reference[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, Mapping):
            node = node.get(key)
        elif isinstance(node, list | tuple) and key.isdecimal() and len(key) < _DIGITS and int(key) < len(node):
            node = node[int(key)]
        else:
            return None
    return node
