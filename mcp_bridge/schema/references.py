"""Where the references in a schema lead: JSON pointers, anchors and embedded `$id`s (JSON Schema 2020-12, core 8)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urljoin

from mcp_bridge.schema.json_pointer import resolve

REFERRING = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_HERE = "http://-/"
"""The address of a schema that gives itself none; relative ones are joined to it."""


class Located(NamedTuple):
    """A part of a schema, and the address that its references are relative to."""

    node: Any
    base: str

    def inner(self, without: Container[str] = ()) -> Iterator[Located]:
        """What stands right below, but for some keywords."""
        if isinstance(self.node, Mapping):
            for keyword, value in self.node.items():
                if keyword not in without:
                    yield Located(value, _own(value, self.base))
        elif isinstance(self.node, list | tuple):
            for value in self.node:
                yield Located(value, _own(value, self.base))


class References:
    """The addresses in a schema; `incomplete` when it has more parts than are read."""

    def __init__(self, schema: Any, most: int) -> None:
        self.root = Located(schema, _own(schema, _HERE))
        self.incomplete = False
        self._resources: defaultdict[str, list[Located]] = defaultdict(list)
        self._anchors: defaultdict[str, list[Located]] = defaultdict(list)
        self._resources[_HERE].append(self.root)
        stack = [self.root]
        while stack and not self.incomplete:
            located = stack.pop()
            self._note(located)
            stack.extend(located.inner())
            most -= 1
            self.incomplete = most < 0

    def targets(self, keyword: str, reference: Any, base: str) -> Iterator[Located]:
        """What a reference may lead to; a dynamic one leads to every anchor of its name."""
        if not isinstance(reference, str):
            return
        address, _, fragment = reference.partition("#")
        fragment = unquote(fragment)
        resources = self._resources.get(_joined(base, address) if address else base, ())
        if not fragment or fragment.startswith("/"):
            for resource in resources:
                found = resolve(f"#{fragment}", resource.node)
                yield Located(found, _own(found, resource.base))
        else:
            wanted = None if keyword == "$dynamicRef" else {resource.base for resource in resources}
            yield from (item for item in self._anchors.get(fragment, ()) if wanted is None or item.base in wanted)

    def _note(self, located: Located) -> None:
        node = located.node
        if not isinstance(node, Mapping):
            return
        if isinstance(node.get("$id"), str):
            self._resources[located.base].append(located)
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(node.get(keyword), str):
                self._anchors[node[keyword]].append(located)


def _own(node: Any, base: str) -> str:
    """The address of a part: that of what it stands in, unless it gives itself one."""
    given = node.get("$id") if isinstance(node, Mapping) else None
    return _joined(base, given) if isinstance(given, str) else base


def _joined(base: str, address: str) -> str:
    try:
        return urljoin(base, address).partition("#")[0]
    except ValueError:  # an address like http://[
        return address
