"""Selects the keywords of a document's schemas that JSON Schema knows and that have valid values.

One invalid keyword would make the schema of a whole tool unusable, so it is left out instead.
"""

from __future__ import annotations

from typing import Any

from mcp_bridge._json_schema.schema_checks import check_schema
from mcp_bridge._json_schema.type_sets import TYPES, list_declared_types
from mcp_bridge._json_schema.walking import COMBINATORS
from mcp_bridge._runtime.exact_json import dump_json
from mcp_bridge._sources.openapi.document import Json

MEMBERS = frozenset({"properties", "patternProperties", *COMBINATORS})
"""The keywords that declare properties of the same object."""
_VALUES = frozenset({"enum", "const", "default"})
_CONSTRAINTS = frozenset(
    {
        "title", "description", "format", "contentEncoding", "contentMediaType", "pattern", "minimum", "maximum",
        "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems",
        "minProperties", "maxProperties", "minContains", "uniqueItems", "deprecated", "readOnly", "writeOnly",
    }
)  # fmt: skip


def select_keywords(schema: Json) -> dict[str, Any]:
    """Return the valid keywords of a schema. `SchemaConverter` converts `type` and keywords with subschemas itself."""
    keywords = {}
    for keyword, value in schema.items():
        if keyword in _VALUES:
            is_valid = _is_json(value) and (keyword != "enum" or (isinstance(value, list) and bool(value)))
        else:
            is_valid = keyword in _CONSTRAINTS and not check_schema({keyword: value})
        if is_valid:
            keywords[keyword] = value
    return keywords


def is_pattern(value: Any) -> bool:
    """Return whether a value is a pattern that can be matched in linear time, unlike those with look-around."""
    return isinstance(value, str) and not check_schema({"pattern": value})


def list_known_types(schema: Json) -> list[str]:
    """Return the types of a schema, or an empty list if one of them is unknown."""
    types = schema.get("type")
    names = list_declared_types(schema)
    if not TYPES.issuperset(names) or (isinstance(types, list) and len(types) > len(names)):
        return []
    return list(dict.fromkeys(names))


def _is_json(value: Any) -> bool:
    """Return whether a value can be sent to clients as JSON, unlike dates of YAML and too large integers."""
    try:
        dump_json(value)
    except TypeError:
        return False
    return True
