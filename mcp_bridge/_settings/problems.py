"""Converts errors of pydantic to problems with file, line, key path, and the expected and actual value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.similar_names import find_similar_name
from mcp_bridge._settings.documents.document import Document, join_errors
from mcp_bridge._settings.documents.positions import KeyPath, PathStep, walk_values
from mcp_bridge._settings.documents.value_text import (
    SENSITIVE,
    SHORTEST_SECRET,
    describe_kind,
    describe_value,
    quote_text,
    redact_values,
)

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails


_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "dataclass_type": "a mapping of keys to values",
    "none_required": "nothing (null)",
    "literal_error": "one of {expected}",
    "enum": "one of {expected}",
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
    "string_too_short": "text of {min_length} or more characters",
    "string_too_long": "text of {max_length} or fewer characters",
    "string_pattern_mismatch": "text that matches {pattern}",
    "too_short": "{min_length} or more entries",
    "too_long": "{max_length} or fewer entries",
    "short_key": "keys of 32 or more bytes (make one: python3 -c 'import secrets; print(secrets.token_urlsafe(32))')",
}
"""What a message says was expected, by the type of pydantic's error. The names in braces are from its `ctx`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReport:
    """Reports the errors of validating `model` with the data at `base` of the document.

    `also_known` are valid keys at `base` that the model does not have. `hints` are those for unknown keys at `base`.
    """

    document: Document
    model: type[BaseModel]
    base: KeyPath = ()
    also_known: Sequence[str] = ()
    hints: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, errors: Sequence[ErrorDetails]) -> ConfigError:
        """Combine all errors into one, in the order of the file."""
        problems = {str(error): error for error in map(self._convert, errors)}
        return join_errors(sorted(problems.values(), key=lambda error: error.line or 0))

    def _convert(self, error: ErrorDetails) -> ConfigError:
        where = self._find_place(error)
        hint = ""
        if error["type"] == "extra_forbidden":
            problem, hint = self._describe_unknown_key(where, error["loc"][:-1])
        elif error["type"] == "missing":
            problem, hint = "this key is required", "Add it."
        else:
            is_secret = is_hidden(self.document, where)
            problem = _describe_value(error, self.document, hidden=is_secret)
        return self.document.make_error(where, problem, hint)

    def _find_place(self, error: ErrorDetails) -> KeyPath:
        """Return the key path of an error in the file.

        The `loc` of pydantic also has the names of the members of unions that it has tried. These are left out.
        """
        value: Any = self.document.data
        for step in self.base:
            value = value[step]
        where: list[PathStep] = [*self.base]
        for step in error["loc"]:
            is_key = isinstance(value, dict) and step in value
            is_index = isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value)
            if is_key or is_index:
                value = value[step]
                where.append(step)
        if error["type"] == "missing":
            where.append(error["loc"][-1])
        return tuple(where)

    def _describe_unknown_key(self, where: KeyPath, inside: KeyPath) -> tuple[str, str]:
        """Return the problem and a hint. `inside` is the `loc` of the mapping with the key."""
        key = str(where[-1])
        is_top = len(where) == len(self.base) + 1
        keys = list_known_keys(self.model, inside)
        if is_top:
            keys.update(self.also_known)
        known_keys = sorted(keys)
        problem = f"unknown key {quote_text(key)}"
        if is_top and key in self.hints:
            return problem, self.hints[key]
        match = find_similar_name(key, known_keys)
        if match is not None:
            return f"{problem}, did you mean '{match}'?", ""
        return problem, f"Known keys: {', '.join(known_keys)}."


def list_known_keys(model: type[BaseModel], inside: Sequence[PathStep]) -> set[str]:
    """Return the valid keys at a place in the data of a model. There may be several models for it."""
    models = [model]
    for step in inside:
        inner_models: list[type[BaseModel]] = []
        for outer_model in models:
            for name, info in outer_model.model_fields.items():
                if step in (name, info.alias):
                    inner_models += _iter_models(info.annotation)
        # A step that is not a field is an index of a list or a key of a mapping: the models stay the same.
        if inner_models:
            models = inner_models
    keys: set[str] = set()
    for inner_model in models:
        keys.update(info.alias or name for name, info in inner_model.model_fields.items())
    return keys


def is_hidden(document: Document, where: KeyPath) -> bool:
    """Return whether a value must not appear in messages.

    This applies to values from the environment, and under keys such as `token`.
    """
    for step in where:
        if isinstance(step, str) and any(word in step.lower() for word in SENSITIVE):
            return True
    return any(place[: len(where)] == where for place in document.hidden_places)


def _iter_models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in a type, such as those of a union or of the items of a tuple."""
    if isinstance(annotation, type) and hasattr(annotation, "model_fields"):
        yield annotation
    for argument in get_args(annotation):
        yield from _iter_models(argument)


def _describe_value(error: ErrorDetails, document: Document, *, hidden: bool) -> str:
    value = error["input"]
    description = describe_value(value)
    if hidden and isinstance(value, str | int | float):
        description = f"{describe_kind(value)} (not shown)"
    template = _EXPECTED.get(error["type"])
    if template:
        return f"expected {template.format(**error.get('ctx', {}))}, found {description}"
    message = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ").rstrip(".")
    message = re.sub(r"^Input should be( an?)? (valid )?", r"expected\1 ", message)
    message = _redact(message, document, [value] if hidden and isinstance(value, str) else [])
    shows_value = error.get("ctx", {}).get("shows_value", not isinstance(value, dict))
    return f"{message}, found {description}" if shows_value else message


def _redact(message: str, document: Document, further_values: Sequence[str]) -> str:
    """Redact secret values in the message of a validator."""
    secrets = set(document.secrets)
    for place, value in walk_values(document.data):
        if isinstance(value, str) and is_hidden(document, place):
            secrets.add(value)
    texts = {secret for secret in secrets if len(secret) >= SHORTEST_SECRET}
    return redact_values(message, texts.union(further_values))
