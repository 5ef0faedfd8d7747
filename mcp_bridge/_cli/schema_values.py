"""JSON Schemas at the command line: the parameters of a tool as text, and `key=value` pairs as JSON values."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._json_schema.references import resolve_schema
from mcp_bridge._json_schema.type_sets import TYPES, has_type, list_types, simplify_types

PAIRS_HINT = "Use key=value for text and numbers, key:=JSON for anything else, or --arguments with one JSON object"


def format_parameters(schema: Mapping[str, Any]) -> str:
    """Format the parameters of a tool: `item: string, amount: integer = 1, note?: string`."""
    required = schema.get("required") or ()
    return ", ".join(
        _format_parameter(name, resolve_schema(given, schema), name in required)
        for name, given in _get_properties(schema).items()
    )


def _format_parameter(name: str, schema: Mapping[str, Any], is_required: bool) -> str:
    if isinstance(values := schema.get("enum"), list):
        kind = "|".join(map(_format_json, values))
    else:
        types = list_types(schema, schema)
        kind = "any" if types >= TYPES else "|".join(simplify_types(types - {"null"} or types))
    if schema.get("default") is not None:
        return f"{name}: {kind} = {_format_json(schema['default'])}"
    return f"{name}{'' if is_required else '?'}: {kind}"


def read_arguments(text: str | None, pairs: Sequence[str]) -> tuple[Any, Sequence[str]]:
    """Return the arguments of `--arguments`, or those of one word that is a JSON object, and the other words.

    Without both, the arguments are None. Raises ConfigError for invalid JSON, and for words beside `--arguments`.
    """
    if text is None and len(pairs) == 1 and pairs[0].lstrip().startswith("{"):
        text, pairs = pairs[0], []
    if pairs and text is not None:
        raise ConfigError(f"both --arguments and '{pairs[0]}' were given", where="arguments", hint=PAIRS_HINT)
    try:
        if text == "-":  # PowerShell writes a byte order mark
            text = sys.stdin.read().removeprefix("\ufeff")
        return (json.loads(text) if text is not None else None), pairs
    except ValueError as error:
        hint = 'Use --arguments \'{"name": "value"}\', or - to read stdin'
        raise ConfigError(f"invalid JSON: {error}", where="--arguments", hint=hint) from error


def parse_pairs(pairs: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Parse `key=value` and `key:=JSON` by the input schema of a tool. A list may have a pair for each item.

    A value is JSON if the schema allows that type, otherwise text. Raises ConfigError.
    """
    properties = _get_properties(schema)
    arguments: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        is_json = key.endswith(":")
        key = key.removesuffix(":")
        if not equals or not key:
            raise ConfigError(f"'{pair}' is not key=value", where="arguments", hint=PAIRS_HINT)
        types = list_types(properties.get(key, {}), schema)
        is_list = "array" in types and not types & {"string", "object"} and not is_json
        value = _parse_json(pair, text) if is_json else _parse_value(text, types)
        if is_list and not isinstance(value, list) and not (value is None and "null" in types):
            items = list_types(_find_items(properties[key], schema), schema)
            arguments[key] = [*arguments.get(key, ()), _parse_value(text, items)]
        elif key in arguments:
            raise ConfigError(f"'{key}' is given twice", where="arguments", hint="Pass it once")
        else:
            arguments[key] = value
    return arguments


def _find_items(schema: Any, root: Mapping[str, Any]) -> Any:
    """Find the schema of the items of a list, which may be one of several alternatives."""
    schema = resolve_schema(schema, root)
    for choice in (schema, *(schema.get("anyOf") or schema.get("oneOf") or ())):
        if "items" in (found := resolve_schema(choice, root)):
            return found["items"]
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
    return text if "string" in types and not has_type(value, types) else value


def _parse_json(pair: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(f"'{pair}' has invalid JSON: {error}", where="arguments", hint=PAIRS_HINT) from error


def _format_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
