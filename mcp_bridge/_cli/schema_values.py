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
        enum = property_schema.get("enum")
        types = list_types(property_schema, property_schema)
        if isinstance(enum, list):
            type_text = "|".join(map(_format_json, enum))
        elif types >= TYPES:
            type_text = "any"
        elif types == {"null"}:
            type_text = "null"
        else:
            # An optional parameter often allows null, which would only make its type longer.
            type_text = "|".join(simplify_types(types - {"null"}))
        if property_schema.get("default") is not None:
            parameters.append(f"{name}: {type_text} = {_format_json(property_schema['default'])}")
        elif name in required:
            parameters.append(f"{name}: {type_text}")
        else:
            parameters.append(f"{name}?: {type_text}")
    return ", ".join(parameters)


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
    schema = resolve_schema(schema, root)
    for alternative in (schema, *(schema.get("anyOf") or schema.get("oneOf") or ())):
        resolved = resolve_schema(alternative, root)
        if "items" in resolved:
            return resolved["items"]
    return {}


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
