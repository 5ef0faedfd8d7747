"""Simplifies output schemas for clients.

A client compiles the output schema of each tool, and checks every result against it. The TypeScript SDK does so with
Ajv in draft 7. If Ajv cannot compile a schema, the client rejects the whole list of tools. If Ajv reads a keyword
differently, the client rejects valid results. The bridge itself checks results against the complete schema, so clients
get only the keywords that all validators read in the same way. A simplified schema accepts at least the values of the
complete one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_bridge._json_schema.merging import relax_one_of
from mcp_bridge._json_schema.references import resolve_pointer
from mcp_bridge._json_schema.walking import map_subschemas, walk_schemas

_REMOVED = frozenset(
    {
        "$dynamicRef", "$recursiveRef", "contains", "dependencies", "else", "id", "if", "maxContains",
        "minContains", "not", "nullable", "pattern", "then", "unevaluatedItems", "unevaluatedProperties",
    }
)  # fmt: skip
r"""Keywords that clients check differently or cannot compile.

`pattern` depends on the engine: `(?P<n>a)` is the syntax of Python, and `\w` may include the letters of all languages.
Others belong to OpenAPI or to other drafts. `not`, `if`, `contains` and similar keywords contain schemas: if such a
schema is simplified and so accepts more, the keyword would reject more.
"""
_FORMATS = frozenset({"date", "uuid"})
"""Formats that all clients check in the same way. FastMCP's client turns values into objects by their format.

`date-time` and `duration` are not among them, because a value may be naive or negative, which some clients reject.
"""
_EXCLUSIVE_LIMITS = frozenset({"exclusiveMinimum", "exclusiveMaximum"})


def simplify_output_schema(schema: Any) -> Any:
    """Return an output schema without the keywords that validators read differently."""
    simple = _simplify(schema)
    for _, subschema in walk_schemas(simple):
        reference = subschema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/") and resolve_pointer(reference, simple) is None:
            # The reference leads into a keyword that was removed.
            return {"type": schema["type"]} if "type" in schema else {}
    return simple


def _simplify(schema: Any) -> Any:
    """Return a simplified copy of a schema, from the innermost subschemas outwards."""
    if not isinstance(schema, Mapping):
        return schema
    simple = map_subschemas(schema, _simplify)
    if "prefixItems" in simple or isinstance(simple.get("items"), list):
        # Draft 7 has no `prefixItems`, and draft 2020-12 no list of `items`.
        simple.pop("items", None)
        simple.pop("additionalItems", None)
    if "patternProperties" in simple:
        del simple["patternProperties"]
        simple.pop("additionalProperties", None)
    # More than one alternative may accept a value once patterns are removed.
    simple = relax_one_of(simple)
    return {keyword: value for keyword, value in simple.items() if _is_common(keyword, value)}


def _is_common(keyword: str, value: Any) -> bool:
    """Whether all validators read a keyword with this value in the same way."""
    if keyword == "format":
        return value in _FORMATS
    if keyword in _EXCLUSIVE_LIMITS:
        # In draft 4, these keywords are booleans.
        return not isinstance(value, bool)
    if keyword == "multipleOf":
        # Ajv divides floats, so that 0.3 is no multiple of 0.1.
        return isinstance(value, int)
    if keyword == "enum":
        # Ajv rejects an empty list.
        return bool(value)
    if keyword == "$schema":
        # Ajv does not know draft 4.
        return "draft-04" not in str(value)
    return keyword not in _REMOVED
