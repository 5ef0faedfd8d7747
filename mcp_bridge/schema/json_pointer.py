"""Places in a schema: where a local reference (a JSON Pointer, RFC 6901, behind a #) leads, and JSON paths."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

_PLAIN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")
_DIGITS = 10
"""No list has an index of so many; Python refuses to read some thousand."""


def resolve(reference: str, root: Any) -> Any:
    """What a reference such as `#/$defs/city` leads to from the schema's root.

    None where that is nothing, and for anchors and other addresses.
    """
    if reference != "#" and not reference.startswith("#/"):
        return None
    node = root
    for part in unquote(reference[1:]).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, Mapping):
            node = node.get(key)
        elif isinstance(node, list | tuple) and key.isdecimal() and len(key) < _DIGITS and int(key) < len(node):
            node = node[int(key)]
        else:
            return None
    return node


def below(path: str, *keys: str | int) -> str:
    """The JSON path of what is at these keys below a path: `$.properties.city`, `$.anyOf[0]`, `$["a b"]`."""
    for key in keys:
        if isinstance(key, int):
            path += f"[{key}]"
        elif _PLAIN.fullmatch(key):
            path += f".{key}"
        else:
            path += '["' + key.replace("\\", "\\\\").replace('"', '\\"') + '"]'
    return path
