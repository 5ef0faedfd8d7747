"""Resolves the references of a schema (JSON Schema 2020-12, core 8), and writes JSON paths."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

REFERRING = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_PLAIN_KEY = r"[A-Za-z_$][A-Za-z0-9_$-]*"
_MAX_REFERENCES = 32
"""The maximum number of references that lead from one to the next."""
_MAX_DIGITS = 10
"""No list has an index this long, and Python refuses to convert numbers of some thousand digits."""


def resolve_pointer(reference: str, root: Any) -> Any:
    """What a JSON Pointer such as `#/$defs/city` (RFC 6901) leads to from the schema's root.

    None if it leads to nothing, and for anchors and other addresses.
    """
    if reference != "#" and not reference.startswith("#/"):
        return None
    node = root
    for part in unquote(reference[1:]).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, Mapping):
            node = node.get(key)
        elif isinstance(node, list | tuple) and key.isdecimal() and len(key) < _MAX_DIGITS and int(key) < len(node):
            node = node[int(key)]
        else:
            return None
    return node


def resolve_schema(schema: Any, root: Any) -> Mapping[str, Any]:
    """Return a schema with the target in place of its reference. The keywords beside the reference take precedence.

    A reference stays if it leads to nothing, or back to itself. What is not a mapping becomes an empty schema.
    """
    resolved: Mapping[str, Any] = schema if isinstance(schema, Mapping) else {}
    for _ in range(_MAX_REFERENCES):
        reference = resolved.get("$ref")
        target = resolve_pointer(reference, root) if isinstance(reference, str) else None
        if not isinstance(target, Mapping):
            break
        resolved = {**target, **{keyword: value for keyword, value in resolved.items() if keyword != "$ref"}}
    return resolved


def extend_path(path: str, *keys: str | int) -> str:
    """A JSON path extended by keys: `$.properties.city`, `$.anyOf[0]`, `$["a b"]`."""
    for key in keys:
        if isinstance(key, int):
            path += f"[{key}]"
        elif re.fullmatch(_PLAIN_KEY, key):
            path += f".{key}"
        else:
            path += '["' + key.replace("\\", "\\\\").replace('"', '\\"') + '"]'
    return path
