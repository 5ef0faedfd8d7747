"""Resolves the references of a schema (JSON Schema 2020-12, core 8), and writes JSON pointers and paths."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

REFERRING = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
"""Keywords with a reference."""
_PLAIN_KEY = r"[A-Za-z_$][A-Za-z0-9_$-]*"
"""A key that a JSON path contains without quotes."""
_MAX_REFERENCES = 32
"""The maximum length of a chain of references, so that a loop ends."""
_MAX_DIGITS = 10
"""A key with this many digits is not an index: no list is as long, and Python cannot parse thousands of digits."""


def resolve_pointer(reference: str, root: Any) -> Any:
    """Return the target of a JSON Pointer such as `#/$defs/city` (RFC 6901) in the schema `root`.

    Return None if there is no target, and for anchors and other addresses.
    """
    if reference != "#" and not reference.startswith("#/"):
        return None
    node = root
    for token in unquote(reference[1:]).split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(node, Mapping):
            node = node.get(key)
        elif isinstance(node, list | tuple) and key.isdecimal() and len(key) < _MAX_DIGITS:
            index = int(key)
            if index >= len(node):
                return None
            node = node[index]
        else:
            return None
    return node


def resolve_schema(schema: Any, root: Any) -> Mapping[str, Any]:
    """Return a schema with the target in place of its reference. The keywords beside the reference take precedence.

    A reference stays if it has no target or refers to itself. A schema that is not a mapping becomes an empty one.
    """
    keywords: dict[str, Any] = dict(schema) if isinstance(schema, Mapping) else {}
    for _ in range(_MAX_REFERENCES):
        reference = keywords.get("$ref")
        target = resolve_pointer(reference, root) if isinstance(reference, str) else None
        if not isinstance(target, Mapping):
            break
        del keywords["$ref"]
        keywords = {**target, **keywords}
    return keywords


def extend_pointer(pointer: str, key: object) -> str:
    """Return a JSON Pointer extended by a key, in the form that `resolve_pointer` reads."""
    return f"{pointer}/{str(key).replace('%', '%25').replace('~', '~0').replace('/', '~1')}"


def extend_path(path: str, *keys: str | int) -> str:
    """Return a JSON path extended by keys: `$.properties.city`, `$.anyOf[0]`, `$["a b"]`."""
    for key in keys:
        if isinstance(key, int):
            path += f"[{key}]"
        elif re.fullmatch(_PLAIN_KEY, key):
            path += f".{key}"
        else:
            path += '["' + key.replace("\\", "\\\\").replace('"', '\\"') + '"]'
    return path
