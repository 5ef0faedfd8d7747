"""Strategies for schemas and data: valid schemas (`SOUND`), pairs of a schema and matching data (`FITTED`), and
anything that looks like a schema (`HOSTILE`).

The tests compare our validation with that of another library on `SOUND` and `DATA`, require that it accepts the pairs
of `FITTED`, and require that `HOSTILE` causes no unexpected exception.
"""

from __future__ import annotations

import re
from typing import Any

from hypothesis import strategies as st

TYPES = ["string", "integer", "number", "boolean", "array", "object", "null"]
NAMES = st.sampled_from(["a", "b", "ab", "", "é", "a/b", "a~1", "%41", "$ref", "0", "😀"])
TEXTS = st.text(alphabet="ab0é😀\n ", max_size=5)
WIDE = st.sampled_from(
    [2**53, 2**53 + 1, 2**63, 2**64, 2**64 + 1, -(2**63) - 1, 10**30, 0.1, 1e-7, 0.30000000000000004]
)
NUMBERS = st.integers(-4, 4) | st.sampled_from([-0.0, 1.0, 2.0, 0.5, -1.5, 1e15, 1e300]) | WIDE
LEAVES = st.none() | st.booleans() | NUMBERS | TEXTS
DATA = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
COUNTS = st.integers(0, 4)
PATTERNS = st.sampled_from(["^a", "b$", "^[ab]*$", "é", "^.{2}$", "a|b", "^(ab)?$", "^[^a]+$", "^(a+)+$", "\\d", "^$"])
FORMATS = st.sampled_from(["date", "email", "uri", "uuid", "regex", "ipv4", "no-such-format"])
# The references to the root and to the two definitions of `add_definitions`: `n`, and `m`, which is also the anchor `n`
# and, percent-encoded, `%6D`.
REFERENCES = st.sampled_from(["#", "#/$defs/n", "#/$defs/m", "#n", "#/$defs/%6D"])


def make_sound_schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Generate schemas with up to four keywords, or groups of related keywords, with valid values."""
    schema_lists = st.lists(inner, min_size=1, max_size=3)
    schemas_by_name = st.dictionaries(NAMES, inner, max_size=3)
    name_lists = st.lists(NAMES, unique=True, max_size=3)
    values: dict[str, st.SearchStrategy[Any]] = {
        "type": st.sampled_from(TYPES) | st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True),
        "enum": st.lists(DATA, min_size=1, max_size=4),
        "const": DATA,
        **dict.fromkeys(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], NUMBERS),
        "multipleOf": st.sampled_from([1, 2, 3, 0.5, 0.25, 2**53]),
        **dict.fromkeys(["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"], COUNTS),
        **dict.fromkeys(["minContains", "maxContains"], COUNTS),
        "pattern": PATTERNS,
        **dict.fromkeys(["items", "contains", "additionalProperties", "propertyNames", "not"], inner),
        **dict.fromkeys(["if", "then", "else", "unevaluatedItems", "unevaluatedProperties"], inner),
        **dict.fromkeys(["prefixItems", "allOf", "anyOf", "oneOf"], schema_lists),
        "uniqueItems": st.booleans(),
        "required": name_lists,
        **dict.fromkeys(["properties", "dependentSchemas"], schemas_by_name),
        "patternProperties": st.dictionaries(PATTERNS, inner, max_size=2),
        "dependentRequired": st.dictionaries(NAMES, name_lists, max_size=2),
        "format": FORMATS,
        **dict.fromkeys(["title", "description", "$comment"], TEXTS),
        **dict.fromkeys(["default", "x-unknown"], DATA),
        "contentSchema": inner,
        "examples": st.lists(DATA, max_size=2),
    }
    single_keywords = [[keyword] for keyword in values]
    related_keywords = [["if", "then", "else"], ["contains", "minContains", "maxContains"], ["prefixItems", "items"]]

    def generate_values(groups: list[list[str]]) -> st.SearchStrategy[dict[str, Any]]:
        keywords = sorted({keyword for group in groups for keyword in group})
        return st.fixed_dictionaries({keyword: values[keyword] for keyword in keywords})

    return st.lists(st.sampled_from([*single_keywords, *related_keywords]), max_size=4).flatmap(generate_values)


REFERENCE_SCHEMAS = REFERENCES.map(lambda to: {"$ref": to})
DEEPER_REFERENCES = st.one_of(
    st.builds(lambda name, to: {"properties": {name: to}}, NAMES, REFERENCE_SCHEMAS),
    *(
        st.builds(lambda to, word=word: {word: to}, REFERENCE_SCHEMAS)
        for word in ("items", "contains", "additionalProperties")
    ),
)
"""References below a keyword for parts of the data. They may lead back to themselves, because each round goes one level
deeper into the data. Without that, neither validator would end.
"""
PARTS = st.recursive(
    st.booleans() | st.just({"$ref": "#/$defs/n"}) | DEEPER_REFERENCES, make_sound_schemas, max_leaves=6
)


def add_definitions(body: dict[str, Any], first: Any, second: Any) -> dict[str, Any]:
    """Return a schema with the definitions for its references.

    `first` has no references, so any part of a schema may refer to `n`. `second` may have them, so only the references
    in DEEPER_REFERENCES lead to `m`.
    """
    return {**body, "$defs": {"n": first, "m": {"allOf": [second], "$anchor": "n"}}}


PLAIN = st.recursive(st.booleans(), make_sound_schemas, max_leaves=4)
SOUND = st.builds(add_definitions, make_sound_schemas(PARTS), PLAIN, PARTS)


def make_matching_pairs(inner: st.SearchStrategy[tuple[Any, Any]]) -> st.SearchStrategy[tuple[Any, Any]]:
    """Generate a schema and matching data from smaller ones."""
    lists = st.lists(inner, max_size=3).map(
        lambda pairs: (
            {
                "type": "array",
                "prefixItems": [schema for schema, _ in pairs],
                "items": False,
                "minItems": len(pairs),
                "unevaluatedItems": False,
            }
            if pairs
            else {"type": "array", "maxItems": 0},
            [data for _, data in pairs],
        )
    )
    objects = st.dictionaries(NAMES, inner, max_size=3).map(
        lambda pairs: (
            {
                "type": "object",
                "properties": {name: schema for name, (schema, _) in pairs.items()},
                "required": sorted(pairs),
                "additionalProperties": False,
                "minProperties": len(pairs),
            },
            {name: data for name, (_, data) in pairs.items()},
        )
    )
    wrapped = st.builds(_wrap_pair, inner, st.sampled_from([*_WRAPPERS]))
    return lists | objects | wrapped


_WRAPPERS = {
    "anyOf": lambda own: {"anyOf": [False, own]},
    "oneOf": lambda own: {"oneOf": [own, {"not": own}]},
    "allOf": lambda own: {"allOf": [True, own, {"anyOf": [own, own]}]},
    "not": lambda own: {"not": {"not": own}},
    "if": lambda own: {"if": own, "then": own, "else": False},
}
_REFERENCE_WRAPPERS = {
    "": lambda own: own,
    "$ref": lambda own: {"$id": "http://example.com/part", "$ref": "#/$defs/a", "$defs": {"a": own}},
    "$anchor": lambda own: {"$ref": "#a", "$defs": {"a": {"allOf": [own], "$anchor": "a"}}},
    "$dynamicRef": lambda own: {"$dynamicRef": "#a", "$defs": {"a": {"allOf": [own], "$dynamicAnchor": "a"}}},
    "$id": lambda own: {
        "$ref": "http://example.com/a",
        "$defs": {"a": {"allOf": [own], "$id": "http://example.com/a"}},
    },
}


def _wrap_pair(pair: tuple[Any, Any], keyword: str) -> tuple[Any, Any]:
    schema, data = pair
    return (_WRAPPERS | _REFERENCE_WRAPPERS)[keyword](schema), data


def _make_text_pair(text: str) -> tuple[Any, Any]:
    """Return a schema for a text, and the text. Its pattern is the beginning of the text, or `.` if it is not ASCII."""
    schema: dict[str, Any] = {"type": "string", "minLength": len(text), "maxLength": len(text)}
    if text and "\n" not in text:
        # ECMA-262 has no escape for a blank.
        schema["pattern"] = re.escape(text[:2]).replace("\\ ", " ") if text.isascii() else "."
    return schema, text


_PAIRS = st.recursive(
    st.one_of(
        TEXTS.map(_make_text_pair),
        st.integers(-(2**70), 2**70).map(lambda n: ({"type": "integer", "minimum": n, "maximum": n}, n)),
        st.integers(-9, 9).map(lambda n: ({"type": ["integer", "null"], "exclusiveMinimum": n - 0.5}, float(n))),
        LEAVES.map(lambda value: ({"const": value}, value)),
        LEAVES.map(lambda value: ({"enum": [[], {}, value]}, value)),
        st.just((True, None)),
    ),
    make_matching_pairs,
    max_leaves=8,
)

FITTED = st.builds(_wrap_pair, _PAIRS, st.sampled_from([*_REFERENCE_WRAPPERS]))
"""References stand at the root alone: the reference validator loses the `$id` of a part that it meets under `not`."""

ODD = st.one_of(
    DATA,
    st.sampled_from(
        [float("nan"), float("inf"), 10**400, "\ud800", "(", "(?=a)", "a{9999999}", "^(a+)+$", b"x", object()]
    ),
    st.sampled_from(["#/allOf/" + "9" * 5000, "#%", "http://[", "//", "#/%", "urn:", "\x00", "#" * 50]),
)
KEYWORDS = [
    *(
        "type",
        "properties",
        "items",
        "required",
        "enum",
        "const",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "$ref",
    ),
    *("$defs", "$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$schema", "$vocabulary", "pattern"),
    *(
        "patternProperties",
        "prefixItems",
        "contains",
        "minContains",
        "uniqueItems",
        "multipleOf",
        "minimum",
        "maxLength",
    ),
    *("dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "format", "definitions"),
]
HOSTILE = st.recursive(
    ODD | REFERENCES | st.sampled_from(TYPES),
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=5),
        st.dictionaries(NAMES | st.sampled_from(["\ud800", 1, None]), inner, max_size=2),
        st.lists(inner, max_size=3),
    ),
    max_leaves=14,
)
