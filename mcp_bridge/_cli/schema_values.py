"""JSON Schemas at the command line: formats the parameters of a tool, and parses `key=value` pairs as JSON values."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._json_schema.references import resolve_schema
from mcp_bridge._json_schema.type_sets import TYPES, has_type, list_types, simplify_types

PAIRS_HINT = "Use key=value for text and numbers, key:=JSON for anything else, or --arguments with one JSON object"


def format_parameters(schema: Mapping[str, Any]) -> str:
    """Format the parameters of a tool: `item: string, amount: integer = 1, note?: string`."""
    required = schema.get("required") or ()
    parameters: list[str] = []
    for name in _get_properties(schema):
        property_schema = resolve_schema(schema["properties"][name], schema)
        type_text = _format_type(property_schema)
        if property_schema.get("default") is not None:
            parameters.append(f"{name}: {type_text} = {_format_json(property_schema['default'])}")
        elif name in required:
            parameters.append(f"{name}: {type_text}")
        else:
            parameters.append(f"{name}?: {type_text}")
    return ", ".join(parameters)


def _format_type(schema: Mapping[str, Any]) -> str:
    enum = schema.get("enum")
    types = list_types(schema, schema)
    if isinstance(enum, list):
        return "|".join(map(_format_json, enum))
    if types >= TYPES:
        return "any"
    if types == {"null"}:
        return "null"
    # An optional parameter often allows null, which would only make its type longer.
    return "|".join(simplify_types(types - {"null"}))


def list_arguments(schema: Mapping[str, Any]) -> dict[str, str]:
    """Return the arguments of a tool, each with its description or its type."""
    arguments: dict[str, str] = {}
    for name, property_schema in _get_properties(schema).items():
        resolved = resolve_schema(property_schema, schema)
        arguments[name] = str(resolved.get("description") or _format_type(resolved))
    return arguments


def list_values(schema: Mapping[str, Any], name: str) -> list[str]:
    """Return the possible values of an argument as texts, if its schema lists them or allows booleans."""
    property_schema = resolve_schema(_get_properties(schema).get(name, {}), schema)
    types = list_types(property_schema, schema)
    if "array" in types:
        property_schema = _find_items(property_schema, schema)
        types = list_types(property_schema, schema)
    values: list[Any] = []
    for alternative in _list_alternatives(property_schema, schema):
        values += alternative.get("enum") or ()
        if "const" in alternative:
            values.append(alternative["const"])
    if not values and "boolean" in types and not types >= TYPES:
        values = [True, False]
    return [value if isinstance(value, str) else _format_json(value) for value in values if value is not None]


@dataclass(frozen=True, slots=True)
class CallArguments:
    """The arguments of a call on the command line: JSON of any type, or words such as `key=value`."""

    data: Any
    pairs: Sequence[str]

    @classmethod
    def read_words(cls, text: str | None, words: Sequence[str]) -> CallArguments:
        """Read the JSON of `--arguments`, or a single word with a JSON object, or pairs.

        Raises ConfigError for invalid JSON, and for words together with `--arguments`.
        """
        if text is None and len(words) == 1 and words[0].lstrip().startswith("{"):
            text = words[0]
            words = []
        if words and text is not None:
            raise ConfigError(f"both --arguments and '{words[0]}' were given", where="arguments", hint=PAIRS_HINT)
        if text == "-":
            # PowerShell begins what it writes to a pipe with a byte order mark.
            text = sys.stdin.read().removeprefix("\ufeff")
        try:
            return cls(json.loads(text) if text is not None else None, words)
        except ValueError as error:
            hint = 'Use --arguments \'{"name": "value"}\', or - to read stdin'
            raise ConfigError(f"invalid JSON: {error}", where="--arguments", hint=hint) from error

    def parse_pairs(self, schema: Mapping[str, Any]) -> Any:
        """Parse the pairs by the input schema of a tool, unless the arguments are JSON. Raises ConfigError.

        The value of `key:=` is JSON. Another value is JSON if the schema allows its type, otherwise text. A list may
        have a pair for each item.
        """
        if self.data is not None:
            return self.data
        properties = _get_properties(schema)
        arguments: dict[str, Any] = {}
        for pair in self.pairs:
            key, equals, text = pair.partition("=")
            is_json = key.endswith(":")
            key = key.removesuffix(":")
            if not equals or not key:
                raise ConfigError(f"'{pair}' is not key=value", where="arguments", hint=PAIRS_HINT)
            types = list_types(properties.get(key, {}), schema)
            if is_json:
                try:
                    value = json.loads(text)
                except ValueError as error:
                    problem = f"'{pair}' has invalid JSON: {error}"
                    raise ConfigError(problem, where="arguments", hint=PAIRS_HINT) from error
            else:
                value = _parse_value(text, types)
            is_list = "array" in types and not types & {"string", "object"} and not is_json
            if is_list and not isinstance(value, list) and not (value is None and "null" in types):
                item_types = list_types(_find_items(properties[key], schema), schema)
                arguments[key] = [*arguments.get(key, ()), _parse_value(text, item_types)]
            elif key in arguments:
                raise ConfigError(f"'{key}' is given twice", where="arguments", hint="Pass it once")
            else:
                arguments[key] = value
        return arguments


def _find_items(schema: Any, root: Mapping[str, Any]) -> Any:
    """Return the schema of the items of a list, even if the list is one of several alternatives; empty without one."""
    for alternative in _list_alternatives(schema, root):
        if "items" in alternative:
            return alternative["items"]
    return {}


def _list_alternatives(schema: Any, root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a schema, and those of which it allows any, without references."""
    schema = resolve_schema(schema, root)
    alternatives = [schema]
    for alternative in schema.get("anyOf") or schema.get("oneOf") or ():
        alternatives.append(resolve_schema(alternative, root))
    return alternatives


def _get_properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _parse_value(text: str, types: frozenset[str]) -> Any:
    if types <= {"string"}:
        return text
    try:
        value = json.loads(text)
    except ValueError:
        return text
    # The schema may allow text, but not the type of this value.
    if "string" in types and not has_type(value, types):
        return text
    return value


def _format_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
