"""Resolves the references of a schema (JSON Schema 2020-12, core 8), and writes JSON paths."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urljoin

REFERRING = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_DEFAULT_BASE = "http://-/"
"""The address of a schema without one; relative addresses are joined to it."""
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


class LocatedSchema(NamedTuple):
    """A part of a schema, and the address that its references are relative to."""

    node: Any
    base: str

    def iter_inner(self, without: Container[str] = ()) -> Iterator[LocatedSchema]:
        """The values directly below, except those of some keywords."""
        if isinstance(self.node, Mapping):
            for keyword, value in self.node.items():
                if keyword not in without:
                    yield _make_located(value, self.base)
        elif isinstance(self.node, list | tuple):
            for value in self.node:
                yield _make_located(value, self.base)


class SchemaReferences:
    """The addresses in a schema. `is_incomplete` means that the schema has more than `most` parts."""

    def __init__(self, schema: Any, most: int) -> None:
        self.root = _make_located(schema, _DEFAULT_BASE)
        self.is_incomplete = False
        self._resources: defaultdict[str, list[LocatedSchema]] = defaultdict(list)
        self._anchors: defaultdict[str, list[LocatedSchema]] = defaultdict(list)
        self._resources[_DEFAULT_BASE].append(self.root)
        stack = [self.root]
        while stack and not self.is_incomplete:
            located = stack.pop()
            if isinstance(located.node, Mapping):
                self._add(located, located.node)
            stack.extend(located.iter_inner())
            most -= 1
            self.is_incomplete = most < 0

    def find_targets(self, keyword: str, reference: Any, base: str) -> Iterator[LocatedSchema]:
        """What a reference may lead to; a dynamic one leads to every anchor of its name."""
        if not isinstance(reference, str):
            return
        address, _, fragment = reference.partition("#")
        fragment = unquote(fragment)
        resources = self._resources.get(_join_address(base, address) if address else base, ())
        if not fragment or fragment.startswith("/"):
            for resource in resources:
                yield _make_located(resolve_pointer(f"#{fragment}", resource.node), resource.base)
        else:
            bases = None if keyword == "$dynamicRef" else {resource.base for resource in resources}
            yield from (item for item in self._anchors.get(fragment, ()) if bases is None or item.base in bases)

    def _add(self, located: LocatedSchema, node: Mapping[str, Any]) -> None:
        if isinstance(node.get("$id"), str):
            self._resources[located.base].append(located)
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(node.get(keyword), str):
                self._anchors[node[keyword]].append(located)


def _make_located(node: Any, base: str) -> LocatedSchema:
    """A part with the address of its parent, or with its own `$id`."""
    own = node.get("$id") if isinstance(node, Mapping) else None
    return LocatedSchema(node, _join_address(base, own) if isinstance(own, str) else base)


def _join_address(base: str, address: str) -> str:
    try:
        return urljoin(base, address).partition("#")[0]
    except ValueError:  # an address like http://[
        return address
