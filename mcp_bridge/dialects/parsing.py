"""Arguments that arrive as JSON in a string, where the schema wants an object, a list, a number or a truth value.

Models write them so, and some clients do. Only what does not fit as it stands is parsed, and only where the string
itself does not fit and what is in it is of a wanted type.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

import orjson

from mcp_bridge.dialects.reading import Part, Reading, kind_of
from mcp_bridge.schema.validator import Validator

MAX_DEPTH = 64
STEPS = 200_000
"""How many values are looked at in one call: alternatives within alternatives multiply them."""
_NOTHING: Final = object()


class Parsing:
    """What is done with the arguments of one tool. Everything about its schema is computed once, when first needed."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema

    @cached_property
    def _validator(self) -> Validator:
        return Validator(self._schema)

    @cached_property
    def _root(self) -> Part:
        return Reading(self._schema).part([self._schema])

    def parsed(self, arguments: Any) -> Any:
        """The arguments: the same object when they fit, else a copy in which JSON in strings is parsed. Never raises.

        Whether they fit then is for the validator to say.
        """
        if self._validator.is_valid(arguments):
            return arguments
        try:
            return _Walk().value(self._root, arguments, 0)
        except RecursionError:  # alternatives that lead to alternatives, some hundred times
            return arguments


class _Walk:
    """One call's arguments, held against the schema."""

    def __init__(self) -> None:
        self._left = STEPS
        self._weights: dict[int, int] = {}

    def value(self, part: Part, value: Any, depth: int) -> Any:
        """A value with what is parsed in it; the same object where nothing is."""
        self._left -= 1
        if self._left < 0 or depth > MAX_DEPTH or part.is_open:
            return value
        if isinstance(value, str):
            return self._text(part, value, depth)
        if not isinstance(value, dict | list):
            return value
        value = self._alternative(part, value, depth)
        if isinstance(value, dict):
            return _with(
                value, {name: self.value(part.property(name), item, depth + 1) for name, item in value.items()}
            )
        return _with(value, [self.value(part.item(index), item, depth + 1) for index, item in enumerate(value)])

    def _text(self, part: Part, text: str, depth: int) -> Any:
        if "string" in part.types and part.accepts(text):
            return text
        self._left -= len(text) // 16
        found = _json(text)
        if found is _NOTHING or isinstance(found, str) or kind_of(found) not in part.types:
            return text
        return self.value(part, found, depth + 1)

    def _alternative(self, part: Part, value: Any, depth: int) -> Any:
        """The value as the first alternative takes it that does, where none takes it as it is."""
        for union in part.unions:
            if not any(self._fits(branch, value) for branch in union):
                tried = ((branch, self.value(branch, value, depth + 1)) for branch in union)
                value = next((made for branch, made in tried if made is not value and self._fits(branch, made)), value)
        return value

    def _fits(self, branch: Part, value: Any) -> bool:
        """Whether a value fits an alternative; once too much was looked at, everything does."""
        self._left -= self._weight(value, 0)
        return self._left < 0 or branch.accepts(value)

    def _weight(self, value: Any, depth: int) -> int:
        """How many values there are in one."""
        if not isinstance(value, dict | list) or depth > MAX_DEPTH:
            return 1
        if id(value) not in self._weights:
            items = value.values() if isinstance(value, dict) else value
            self._weights[id(value)] = 1 + sum(self._weight(item, depth + 1) for item in items)
        return self._weights[id(value)]


def _with(value: Any, made: Any) -> Any:
    """The made copy, or the value itself where every item is the one that it had."""
    items: Callable[[Any], Any] = dict.values if isinstance(value, dict) else iter
    return value if all(new is old for new, old in zip(items(made), items(value), strict=True)) else made


def _json(text: str) -> Any:
    """What is in a JSON text; nothing where it is none, or one that readers would differ about."""
    try:
        orjson.loads(text)  # refuses what is too deep, NaN, and halves of characters
        return json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return _NOTHING


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name stands twice in an object")
    return made
