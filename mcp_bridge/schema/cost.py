"""The cost of a schema: how large it is once every reference stands for what it refers to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_bridge.pointer import resolve

MOST = 100_000
"""The most subschemas that a schema may come to; references that double what they refer to come to more soon."""
_COMBINATORS = frozenset({"anyOf", "oneOf", "allOf", "not", "if"})


def expanded(schema: Any, root: Any = None, known: dict[str, int] | None = None) -> int:
    """How many values a schema has, local references followed; one that leads back to itself counts once."""
    root = schema if root is None else root
    known = {} if known is None else known
    total, stack = 0, [schema]
    while stack and total <= MOST:
        node = stack.pop()
        total += 1
        if isinstance(node, Mapping):
            reference = node.get("$ref")
            if isinstance(reference, str) and reference.startswith("#"):
                total += _referred(reference, root, known)
            stack.extend(value for key, value in node.items() if key not in ("$defs", "definitions"))
        elif isinstance(node, list | tuple):
            stack.extend(node)
    return total


def _referred(reference: str, root: Any, known: dict[str, int]) -> int:
    if reference not in known:
        known[reference] = 0  # where it leads back to itself
        known[reference] = expanded(resolve(reference, root), root, known)
    return known[reference]


def branches(schema: Any) -> bool:
    """Whether the schema has keywords that try several ways."""
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, Mapping):
            if not _COMBINATORS.isdisjoint(node):
                return True
            stack.extend(node.values())
        elif isinstance(node, list | tuple):
            stack.extend(node)
    return False
