"""The keywords of a document's schemas that are kept: those that are known, with a valid value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mcp_bridge._json_schema.schema_checks import check_schema
from mcp_bridge._json_schema.type_sets import TYPES
from mcp_bridge._json_schema.walking import COMBINATORS
from mcp_bridge._runtime.exact_json import dump_json
from mcp_bridge._sources.openapi.document import Json

MEMBERS = frozenset({"properties", "patternProperties", *COMBINATORS})
"""The keywords that declare properties of the same object."""


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_json(value: Any) -> bool:
    """Whether a value can be sent to clients: dates of YAML and integers that no parser reads cannot."""
    try:
        dump_json(value)
    except TypeError:
        return False
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and _is_json(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_pattern(value: Any) -> bool:
    """Whether a pattern can run in linear time, which excludes look-around."""
    return isinstance(value, str) and not check_schema({"pattern": value})


def _is_enum(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and _is_json(value)


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("title", "description", "format", "contentEncoding", "contentMediaType"), _is_text),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains"), _is_count
    ),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _is_flag),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "pattern": is_pattern,
    "enum": _is_enum,
    "const": _is_json,
    "default": _is_json,
}


def select_keywords(schema: Json) -> dict[str, Any]:
    """Return the valid keywords without subschemas, except for the type."""
    return {key: schema[key] for key in schema if key in _CHECKS and _CHECKS[key](schema[key])}


def list_known_types(schema: Json) -> list[str]:
    """Return the types of a schema; none if any is unknown."""
    value = schema.get("type")
    kinds = value if isinstance(value, list) else [value]
    known = [kind for kind in kinds if isinstance(kind, str) and kind in TYPES]
    return list(dict.fromkeys(known)) if len(known) == len(kinds) else []
