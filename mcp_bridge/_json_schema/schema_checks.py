"""Checks the schemas of the user's own tools, and repairs those of third parties, before tools are published.

If a keyword of the user's own tool cannot be checked, the tool is rejected, because its author would believe that
arguments are checked. A third-party tool loses only the keyword, because it checks its arguments itself. Plain schemas
have only common keywords and are certainly valid, so a start with them imports no validator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._json_schema.references import resolve_pointer
from mcp_bridge._json_schema.type_sets import TYPES

_SIDES = {"input_schema": "input schema", "output_schema": "output schema"}
"""What messages call the schemas of a tool, by attribute."""
_MAX_LISTED = 20
"""The maximum number of listed problems of a schema. Explaining one may take as long as compiling the whole schema."""
_MAX_DEPTH = 16
"""The maximum number of levels of a plain schema."""
_MAX_NUMBER = 2**53
"""The largest number in a plain schema. All parsers read integers up to it exactly."""


def find_schema_problems(entry: ToolEntry) -> list[str]:
    """Return why a tool of the user's own is not published."""
    problems: list[str] = []
    for attribute, side in _SIDES.items():
        for problem in check_schema(getattr(entry, attribute)):
            problems.append(f"tool '{entry.name}' is not published: {side} {problem}")
    return problems


def repair_tools(entries: Iterable[ToolEntry]) -> tuple[list[ToolEntry], list[str]]:
    """Return tools with schemas for clients, and notes on omitted or unchecked keywords."""
    tools, notes = [], list[str]()
    for entry in entries:
        tool, lines = repair_schemas(entry)
        tools.append(tool)
        notes += lines
    return tools, notes


def repair_schemas(entry: ToolEntry) -> tuple[ToolEntry, list[str]]:
    """Return a tool with schemas for clients, and notes, as `repair_tools` does."""
    schemas: dict[str, Any] = {}
    notes: list[str] = []
    for attribute, side in _SIDES.items():
        schemas[attribute], lines = repair_third_party_schema(getattr(entry, attribute))
        notes += [f"tool '{entry.name}': {side} {line}" for line in lines]
    if not notes:
        return entry, []
    return replace(entry, **schemas), notes


def check_schema(schema: Any) -> list[str]:
    """Return a line for each uncheckable keyword of a schema."""
    if is_plain(schema):
        return []
    from mcp_bridge._json_schema.validator import Validator

    advice = ": write it without look-around"
    pointers = Validator(schema).ignored_keywords
    problems = [f"{pointer}: {_explain(schema, pointer, advice)}" for pointer in pointers[:_MAX_LISTED]]
    if len(pointers) > _MAX_LISTED:
        problems.append(f"$: there are {len(pointers)} such keywords; only the first are listed")
    return problems


def repair_third_party_schema(schema: Any) -> tuple[Any, list[str]]:
    """Return the schema for clients, and a line for each omitted or unchecked keyword.

    Patterns with look-around, for example, are for clients, but this validator cannot check them.
    """
    if not isinstance(schema, Mapping) or is_plain(schema):
        return schema, []
    from mcp_bridge._json_schema.schema_repair import reduce_schema, repair_schema
    from mcp_bridge._json_schema.size_limits import is_too_large_expanded
    from mcp_bridge._json_schema.validator import TOO_LARGE, Validator

    ignored_keywords = Validator(schema).ignored_keywords
    if not ignored_keywords:
        return schema, []
    if ignored_keywords == TOO_LARGE:
        reduced_schema = reduce_schema(schema, lambda candidate: not is_too_large_expanded(candidate))
        copy, removed_keywords = repair_schema(reduced_schema, _is_readable)
        pointers = [*ignored_keywords, *removed_keywords][:_MAX_LISTED]
        return copy, [f"reduced: {_explain(schema, pointer)}" for pointer in pointers]
    copy, removed_keywords = repair_schema(schema, _is_readable)
    lines = []
    for pointer in list(dict.fromkeys([*ignored_keywords, *removed_keywords]))[:_MAX_LISTED]:
        effect = "left out" if pointer in removed_keywords else "not checked"
        lines.append(f"{pointer} is {effect}: {_explain(schema, pointer)}")
    return copy, lines


def make_checkable(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema without its uncheckable keywords."""
    if is_plain(schema):
        return schema
    from mcp_bridge._json_schema.schema_repair import repair_schema
    from mcp_bridge._json_schema.validator import Validator, is_checkable

    if not Validator(schema).ignored_keywords:
        return schema
    return repair_schema(schema, is_checkable)[0]


def _is_readable(schema: Mapping[str, Any]) -> bool:
    """Whether clients understand a schema. Their patterns (ECMA-262) may have look-around and back-references."""
    from mcp_bridge._json_schema.validator import compile_validator

    return compile_validator(schema, may_backtrack=True) is not None


def _explain(schema: Any, pointer: str, advice: str = "") -> str:
    """Return why a keyword cannot be checked. The advice is for the author of a pattern with look-around."""
    from mcp_bridge._json_schema.size_limits import MAX_EXPANDED_VALUES, is_too_large_expanded
    from mcp_bridge._json_schema.validator import build_validator

    keyword = pointer.rsplit("/", 1)[-1]
    value = resolve_pointer(pointer, schema)
    if pointer == "#/$ref" and is_too_large_expanded(schema):
        return f"its references come to more than {MAX_EXPANDED_VALUES} values"
    if keyword == "pattern" and isinstance(value, str):
        if _is_readable({"pattern": value}):
            return f"the pattern {value!r} cannot be used. Patterns run in linear time{advice}"
        return f"the pattern {value!r} is invalid. Patterns are those of JavaScript with the flag u"
    invalid_schema = {keyword: value}
    if keyword == "$ref" and isinstance(value, str) and resolve_pointer(value, schema) is not None:
        # A reference with a target is explained by the whole schema, where other keywords may fail first.
        invalid_schema = schema
    try:
        build_validator(invalid_schema)
    except Exception as error:
        return str(error).splitlines()[0]
    return "this cannot be understood"


def is_plain(schema: Any, depth: int = 0) -> bool:
    """Whether a schema has only common keywords with valid values. Other schemas may be valid too."""
    if type(schema) is not dict or depth > _MAX_DEPTH:
        return False
    for keyword, value in schema.items():
        if keyword == "properties":
            if not _is_object(value) or not all(is_plain(subschema, depth + 1) for subschema in value.values()):
                return False
        elif keyword in ("items", "additionalProperties"):
            if type(value) is not bool and not is_plain(value, depth + 1):
                return False
        elif keyword in ("anyOf", "oneOf", "allOf"):
            if type(value) is not list or not value or not all(is_plain(subschema, depth + 1) for subschema in value):
                return False
        elif keyword not in _CHECKS or not _CHECKS[keyword](value):
            return False
    return True


def _is_text(value: Any) -> bool:
    return type(value) is str and (value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value))


def _is_object(value: Any) -> bool:
    return type(value) is dict and all(map(_is_text, value))


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= _MAX_NUMBER


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MAX_NUMBER


def _is_scalar(value: Any) -> bool:
    return _is_text(value) or value is None or type(value) is bool or _is_number(value)


def _is_list_of(value: Any, check: Callable[[Any], bool]) -> bool:
    return type(value) is list and all(map(check, value))


def _is_type(value: Any) -> bool:
    if type(value) is str:
        return value in TYPES
    return _is_names(value) and bool(value) and TYPES.issuperset(value)


def _is_names(value: Any) -> bool:
    return _is_list_of(value, _is_text) and len({*value}) == len(value)


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "type": _is_type,
    "required": _is_names,
    "enum": lambda value: _is_list_of(value, _is_scalar) and bool(value),
    **dict.fromkeys(("title", "description", "format", "contentEncoding", "contentMediaType"), _is_text),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), lambda value: type(value) is bool),
    **dict.fromkeys(("const", "default"), _is_scalar),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _is_count),
    "multipleOf": lambda value: _is_number(value) and value > 0,
}
