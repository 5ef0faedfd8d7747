"""Limits the size of data and schemas of third parties: text, values, levels, and schemas behind references.

Every check has a fast path with an upper bound, because nearly all data and schemas are small.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

import orjson

from mcp_bridge._json_schema.references import REFERRING, resolve_pointer
from mcp_bridge._json_schema.walking import DEFINITIONS
from mcp_bridge._runtime.exact_json import dump_json

T = TypeVar("T", bound=Hashable)
_SCALARS = frozenset({str, int, float, bool, type(None)})
MAX_EXPANDED_VALUES = 100_000
"""The maximum number of values of an expanded schema, in which every reference is replaced by its target.

A chain of definitions soon exceeds it if each refers to the next one twice.
"""

MAX_VALUES = 250_000
"""The maximum number of values of a parsed result.

Small objects take 50 times the memory of their text. Parsing this many takes 0.1 seconds, and no other thread runs
meanwhile.
"""
_TEXT_IN_JSON = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)


def has_too_many_values(text: bytes) -> bool:
    """Whether JSON has more than MAX_VALUES values, estimated without parsing. The answer may also be yes for fewer."""
    if _bound_values(text) <= MAX_VALUES:
        return False
    # Strings may contain commas and brackets, so removing them improves the bound.
    return _bound_values(_TEXT_IN_JSON.sub(b"", text)) > MAX_VALUES


def _bound_values(text: bytes) -> int:
    """Return an upper bound for the number of values in JSON.

    A comma or an opening bracket precedes each value except the first.
    """
    return 1 + text.count(b",") + text.count(b"{") + text.count(b"[")


class SizeLimits(NamedTuple):
    """Limits for data: at most `size` characters of text in total, `depth` levels, and `nodes` values."""

    size: int = 4 * 1024 * 1024
    depth: int = 64
    nodes: int = 100_000

    def describe_excess(self, data: Any) -> str | None:
        """Return the first limit that the data exceeds, as text, or None.

        Most data is a flat object or small, so it need not be walked.
        """
        # This is the check of a flat object. Every tool call makes it, and a separate function would take a tenth more
        # time.
        if type(data) is dict and self.depth and len(data) < self.nodes:
            size = 0
            for key, value in data.items():
                if type(value) not in _SCALARS or type(key) is not str:
                    break
                size += len(key)
                if type(value) is str:
                    size += len(value)
            else:
                # No value is nested, so only the size is left to check.
                if size <= self.size:
                    return None
        if self._is_small_as_json(data):
            return None
        return self._walk(data)

    def _is_small_as_json(self, data: Any) -> bool:
        """Whether the length and the brackets of the data as JSON prove that it exceeds nothing.

        This is five times as fast as a walk.
        """
        try:
            text = dump_json(data, option=orjson.OPT_PASSTHROUGH_DATACLASS)
        except (TypeError, RecursionError):
            return False
        # Each value has at least one character.
        is_small = len(text) <= min(self.size, self.nodes)
        return is_small and text.count(b"[") + text.count(b"{") <= self.depth

    def _walk(self, data: Any) -> str | None:
        """Return the first limit that the data exceeds. The walk goes level by level, so that it needs no recursion."""
        nodes = 0
        size = 0
        level = [data]
        for _ in range(self.depth + 1):
            if not level:
                return None
            below: list[Any] = []
            for value in level:
                nodes += 1
                if isinstance(value, str):
                    size += len(value)
                elif type(value) in _SCALARS:
                    continue
                elif isinstance(value, list | tuple):
                    below.extend(value)
                elif isinstance(value, Mapping):
                    size += sum([len(key) for key in value if isinstance(key, str)])
                    below.extend(value.values())
                if size > self.size:
                    return f"more than {self.size} characters of text"
            if nodes + len(below) > self.nodes:
                return f"more than {self.nodes} values"
            level = below
        return f"nested deeper than {self.depth} levels" if level else None


_REFERENCE = re.compile(rb'"\$ref":"(#/\$defs/[\w.-]+"|)')
"""A reference in JSON. The group is the pointer to a definition, or empty for a reference of another form."""
_ADDRESSES = re.compile(rb'"\$(?:id|anchor|dynamicRef|dynamicAnchor|recursiveRef)":')


def may_have_references(schema: Any) -> bool:
    """Whether a schema may contain references. Without them, its expanded size is the number of its values."""
    try:
        text = dump_json(schema, default=str)
        # These are the ends of the keywords `$ref`, `$dynamicRef` and `$recursiveRef`.
        return b'ref":' in text or b'Ref":' in text
    except (TypeError, ValueError):
        return True


def is_too_large_expanded(schema: Any) -> bool:
    """Whether a schema has more than MAX_EXPANDED_VALUES values if its references are followed. Never raises.

    For most schemas, an upper bound is sufficient. It takes a fortieth of the time of the exact number.
    """
    bound = _bound_expanded(schema)
    return (bound is None or bound > MAX_EXPANDED_VALUES) and count_expanded(schema) > MAX_EXPANDED_VALUES


def _bound_expanded(schema: Any) -> int | None:
    """Return an upper bound of `count_expanded`, or None if the schema has other references than to `$defs`.

    The bound comes from the JSON text of each definition: its commas and brackets, and its references to others.
    """
    definitions = schema.get("$defs", {}) if isinstance(schema, Mapping) else None
    if not isinstance(definitions, Mapping):
        return None
    root = {key: value for key, value in schema.items() if key != "$defs"}
    # None is the root, because any text can be the name of a definition.
    sizes: dict[str | None, int] = {}
    references: dict[str | None, list[str | None]] = {}
    for name, definition in {None: root, **definitions}.items():
        try:
            text = dump_json(definition)
        except (TypeError, ValueError):
            return None
        pointers = _REFERENCE.findall(text)
        if b"" in pointers or _ADDRESSES.search(text):
            return None
        sizes[name] = _bound_values(text)
        references[name] = [pointer[len(b"#/$defs/") : -1].decode() for pointer in pointers]
    return sum_references(None, sizes, references)


def sum_references(root: T, sizes: Mapping[T, int], references: Mapping[T, Sequence[T]]) -> int:
    """Return the size of a definition in which every reference is replaced by its target. A loop counts once.

    A definition is visited twice: before its targets, and after them, when their totals are known.
    """
    totals: dict[T, int] = {}
    stack = [root]
    while stack:
        name = stack[-1]
        targets = references.get(name, ())
        if name not in totals:
            # Until the total is known, a reference back to this definition adds nothing.
            totals[name] = 0
            stack += [target for target in targets if target not in totals]
        else:
            stack.pop()
            if totals[name] == 0:
                totals[name] = sizes.get(name, 1) + sum(totals.get(target, 0) for target in targets)
    return totals[root]


def count_expanded(schema: Any) -> int:
    """Count the values of a schema in which every reference is replaced by its target. A loop counts once.

    Stops soon after MAX_EXPANDED_VALUES, and never raises. If a reference may have several targets, all of them count.
    """
    addresses = _Addresses(schema)
    if addresses.is_incomplete:
        return MAX_EXPANDED_VALUES + 1
    sizes: dict[int, int] = {}
    references: dict[int, list[int]] = {}
    spent = 0
    stack = [schema]
    while stack:
        part = stack.pop()
        if id(part) in sizes:
            continue
        sizes[id(part)] = 0
        references[id(part)] = []
        for node in iter_values(part):
            sizes[id(part)] += 1
            spent += 1
            if isinstance(node, Mapping):
                for keyword in REFERRING & node.keys():
                    targets = addresses.list_targets(node[keyword])
                    spent += len(targets)
                    references[id(part)] += map(id, targets)
                    stack += targets
            if spent + addresses.number_of_attempts > MAX_EXPANDED_VALUES:
                return MAX_EXPANDED_VALUES + 1
    return sum_references(id(schema), sizes, references)


class _Addresses:
    """The parts of a schema with an address.

    The address of the schema itself is not known, and neither are the base addresses of references. So addresses are
    compared by their last part, the stem. A reference with the stem of a resource may mean this resource or the schema
    itself. Any other reference may mean every resource.

    Attributes:
        is_incomplete: Whether the schema has too many values.
        number_of_attempts: How many resources `list_targets` has searched. The caller stops when these are too many.
    """

    def __init__(self, schema: Any) -> None:
        self.number_of_attempts = 0
        self._resources: dict[str, list[Any]] = {"": [schema]}
        self._anchors: dict[str, list[Any]] = {}
        values = list(iter_values(schema, ()))
        self.is_incomplete = len(values) > MAX_EXPANDED_VALUES
        for node in values:
            if not isinstance(node, Mapping):
                continue
            if isinstance(node.get("$id"), str) and node is not schema:
                self._resources.setdefault(_get_stem(node["$id"].partition("#")[0]), []).append(node)
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(keyword), str):
                    self._anchors.setdefault(node[keyword], []).append(node)

    def list_targets(self, reference: Any) -> list[Any]:
        """Return the possible targets of a reference. Its base address is not known, so there may be several."""
        if not isinstance(reference, str):
            return []
        address, _, fragment = reference.partition("#")
        if fragment and not unquote(fragment).startswith("/"):
            return self._anchors.get(unquote(fragment), [])
        stem = _get_stem(address)
        if stem and stem in self._resources:
            # The schema itself may have this address, too.
            resources = self._resources[""] + self._resources[stem]
        else:
            resources = list(chain.from_iterable(self._resources.values()))
        self.number_of_attempts += len(resources)
        targets = (resolve_pointer(f"#{fragment}", node) for node in resources)
        return [target for target in targets if target is not None]


def iter_values(value: Any, without: Collection[str] = DEFINITIONS) -> Iterator[Any]:
    """Yield a value and all values in it, except those of the keywords in `without`. Stop after MAX_EXPANDED_VALUES."""
    stack = [value]
    for _ in range(MAX_EXPANDED_VALUES + 1):
        if not stack:
            return
        node = stack.pop()
        yield node
        if isinstance(node, Mapping):
            stack += [inner for keyword, inner in node.items() if keyword not in without]
        elif isinstance(node, list | tuple):
            stack += node


def _get_stem(address: str) -> str:
    """Return the last part of an address, for comparisons. It is empty if the address may be any resource."""
    stem = unquote(address).rpartition("/")[2]
    return "" if stem in (".", "..") else stem
