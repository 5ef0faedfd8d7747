"""What an object schema ties to conditions: the properties that it speaks of, and words on what depends on what."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bridge.dialects.budget import Budget
from mcp_bridge.dialects.combining import constraints, values_of
from mcp_bridge.dialects.shapes import STEPS, UNIONS, followed

DEPENDENT = ("dependentRequired", "dependentSchemas", "dependencies")
"""Keywords that tie something to a property; the last is that of older drafts, and still checked."""
_BRANCHES = ("if", "then", "else")
_PLAIN = frozenset({"type", "properties", "required"})
_FIXED = frozenset({"type", "const", "enum"})
_LONGEST = 300
"""The most characters of a schema that stands among the words."""
_DEEPEST = 8
"""How many conditions in the `else` of one another are told as such."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What must fit where something else does, and where it does not."""

    premise: Any
    then: Any
    otherwise: Any = True


class Words:
    """Words on conditions of one schema, for who sees `listed`, the flat one. All of it raises Stays."""

    def __init__(self, root: Mapping[str, Any], listed: Mapping[str, Any]) -> None:
        self._root = root
        self._budget = Budget(STEPS, f"to tell their conditions takes more than {STEPS} steps")
        self._properties = listed.get("properties", {})
        self._required = frozenset(listed.get("required", ()))
        self._own = frozenset(name for part in _always(root) for name in _mapping(part.get("properties")))

    def told(self, condition: Condition, depth: int = 0) -> str:
        """Half a sentence; empty where nothing depends on anything."""
        then, otherwise = self._wanted(condition.then), self._otherwise(condition.otherwise, depth)
        if not then and not otherwise:
            return ""
        premise = self._premise(condition.premise)
        if not then:
            return f"unless {premise}, {otherwise}"
        return f"if {premise}, then {then}{f'; otherwise {otherwise}' if otherwise else ''}"

    def _premise(self, given: Any) -> str:
        schema = followed(given, self._root)
        if not _is_open(schema) and not _is_plain(schema):
            return f"the arguments fit {self._shown(schema)}"
        schema = _mapping(schema)
        required = dict.fromkeys(_texts(schema.get("required")))
        described = {name: part for name, part in _mapping(schema.get("properties")).items() if not _is_open(part)}
        sure = self._required.union(required)
        told = [self._of_premise(name, part, sure=name in sure) for name, part in described.items()]
        told += [f"`{name}` is given" for name in required if name not in described]
        return " and ".join(told) or "anything is given"

    def _of_premise(self, name: str, part: Any, *, sure: bool) -> str:
        if part is False:
            return f"`{name}` is not given"
        return f"`{name}` {self._fitting(part, 'is', 'fits')}{'' if sure else ' or is not given'}"

    def _wanted(self, given: Any) -> str:
        schema = followed(given, self._root)
        if schema is False:
            return "the call is refused"
        if _is_open(schema):
            return ""
        if not _is_plain(schema):
            return f"the arguments must fit {self._shown(constraints(schema))}"
        required = [name for name in dict.fromkeys(_texts(schema.get("required"))) if name not in self._required]
        told = [f"{_names(required)} {'is' if len(required) == 1 else 'are'} required"] * bool(required)
        properties = _mapping(schema.get("properties"))
        self._budget.spend(1 + len(required) + len(properties))
        narrowed = {name: part for name, part in properties.items() if not self._is_listed(name, part)}
        told += [f"`{name}` {self._must(part)}" for name, part in narrowed.items()]
        free = [name for name in properties if name not in {*required, *narrowed, *self._own}]
        return ", ".join([*told, *[f"{_names(free)} may be given"] * bool(free)])

    def _otherwise(self, given: Any, depth: int) -> str:
        """What the `else` wants, which may be another condition and nothing else."""
        schema = followed(given, self._root)
        if isinstance(schema, Mapping) and set(_BRANCHES).issuperset(constraints(schema)) and depth < _DEEPEST:
            return "; ".join(self.told(one, depth + 1) for one in _of_branches(schema))
        return self._wanted(schema)

    def _is_listed(self, name: str, part: Any) -> bool:
        """Whether the list says all that a schema says of a property."""
        listed = self._properties.get(name)
        if _is_open(part):
            return True
        return isinstance(part, Mapping) and isinstance(listed, Mapping) and constraints(part) == constraints(listed)

    def _must(self, part: Any) -> str:
        return "must not be given" if part is False else f"must {self._fitting(part, 'be', 'fit')}"

    def _fitting(self, part: Any, equal: str, fit: str) -> str:
        """What a schema says of one property, with the verbs that go with it."""
        said = constraints(_mapping(part))
        values = values_of(said) if _FIXED.issuperset(said) else None
        if not values:
            return f"{fit} {self._shown(said)}"
        return (
            f"{equal} {self._shown(values[0])}" if len(values) == 1 else f"{equal} one of {self._shown(list(values))}"
        )

    def _shown(self, value: Any) -> str:
        text = json.dumps(value, ensure_ascii=False)
        self._budget.spend(1 + len(text) // 16)
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def named(schema: Mapping[str, Any]) -> Sequence[str]:
    """The properties of the object that a schema speaks of anywhere, be it only to require them. Raises Stays."""
    return list(dict.fromkeys(name for part in _reached(schema, _beside) for name in _spoken_of(part)))


def conditions(schema: Mapping[str, Any]) -> Sequence[Condition]:
    """The conditions, and what is refused, at the root, and in what always holds with it. Raises Stays."""
    return [one for part in _always(schema) for one in (*_of_branches(part), *_of_dependents(part))]


def _of_branches(schema: Mapping[str, Any]) -> Iterator[Condition]:
    if "not" in schema:
        yield Condition(premise=schema["not"], then=False)
    if "if" in schema:
        yield Condition(premise=schema["if"], then=schema.get("then", True), otherwise=schema.get("else", True))


def _of_dependents(schema: Mapping[str, Any]) -> Iterator[Condition]:
    for word in DEPENDENT:
        for name, part in _mapping(schema.get(word)).items():
            yield Condition(premise={"required": [name]}, then={"required": part} if isinstance(part, list) else part)


def _always(schema: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return _reached(schema, lambda part: _list(part.get("allOf")))


def _reached(
    root: Mapping[str, Any], inside: Callable[[Mapping[str, Any]], Iterable[Any]]
) -> Iterable[Mapping[str, Any]]:
    """The root and what it leads to, each once."""
    found: dict[int, Mapping[str, Any]] = {}
    waiting: deque[Any] = deque([root])
    while waiting:
        part = waiting.popleft()
        if isinstance(part, Mapping) and id(part) not in found:
            found[id(part)] = part
            waiting += [followed(part, root), *inside(part)]
    return found.values()


def _beside(schema: Mapping[str, Any]) -> Iterator[Any]:
    """The schemas in one that may hold for the same object."""
    for word in ("allOf", *UNIONS):
        yield from _list(schema.get(word))
    yield from (schema[word] for word in _BRANCHES if word in schema)
    yield _mapping(schema.get("if")).get("not")
    for word in DEPENDENT:
        yield from _mapping(schema.get(word)).values()


def _spoken_of(schema: Mapping[str, Any]) -> Iterator[str]:
    yield from _mapping(schema.get("properties"))
    yield from _texts(schema.get("required"))
    for word in DEPENDENT:
        for name, part in _mapping(schema.get(word)).items():
            yield from (name, *_texts(part))


def _is_plain(schema: Any) -> bool:
    """Whether words can say all of it."""
    said = constraints(schema) if isinstance(schema, Mapping) else {"not": {}}
    return _PLAIN.issuperset(said) and said.get("type", "object") == "object"


def _is_open(schema: Any) -> bool:
    """Whether a schema allows anything. A value that is no schema at all is read as one that does."""
    return schema is not False and not (isinstance(schema, Mapping) and constraints(schema))


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(value: Any) -> list[str]:
    return [one for one in _list(value) if isinstance(one, str)]
