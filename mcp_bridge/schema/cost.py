"""The cost of a schema: how large it is once every reference stands for what it refers to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_bridge.schema.references import REFERRING, Located, References

MOST = 100_000
"""The most subschemas that a schema may come to; references that double what they refer to come to more soon."""
_COMBINATORS = frozenset({"anyOf", "oneOf", "allOf", "not", "if"})
_ASIDE = frozenset({"$defs", "definitions"})


def expanded(schema: Any) -> int:
    """How many values a schema has, references within it followed; one that leads back to itself counts once.

    Ends soon after `MOST`. Never raises.
    """
    references = References(schema, MOST)
    if references.incomplete:
        return MOST + 1
    costs = {id(schema): 0}  # where it leads back to itself
    open_, spent = [_Open(references.root, references)], 0
    while open_:
        top = open_[-1]
        before, target = top.total, next(top.targets, None)
        spent += top.total - before
        if max(top.total, spent) > MOST:
            return MOST + 1
        if target is None:
            open_.pop()
            costs[id(top.located.node)] = top.total
            if open_:
                open_[-1].total += top.total
        elif id(target.node) in costs:
            top.total += costs[id(target.node)]
        else:
            costs[id(target.node)] = 0
            open_.append(_Open(target, references))
    return costs[id(schema)]


@dataclass
class _Open:
    """Something that is being counted: itself so far, and what it refers to."""

    located: Located
    references: References
    total: int = 0
    targets: Iterator[Located] = field(init=False)

    def __post_init__(self) -> None:
        self.targets = self._count()

    def _count(self) -> Iterator[Located]:
        """Count the values here, and yield what each reference leads to."""
        stack = [self.located]
        while stack:
            located = stack.pop()
            self.total += 1
            if isinstance(located.node, Mapping):
                for keyword in REFERRING & located.node.keys():
                    yield from self.references.targets(keyword, located.node[keyword], located.base)
            stack.extend(located.inner(_ASIDE))


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
