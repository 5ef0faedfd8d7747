"""A changed schema accepts what the original one accepts together with the fixed values, whatever its keywords are."""

from __future__ import annotations

from itertools import product
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from mcp_bridge import ToolEntry
from mcp_bridge._engine.overrides import ToolOverride
from mcp_bridge._json_schema.validator import Validator

NAMES = ("a", "b", "c")
VALUES = (1, 2, "x")
INNER = st.sampled_from([{"type": "integer"}, {"type": "string"}, {"const": 1}, {"enum": [2, "x"]}, True, False, {}])
NAME = st.sampled_from(NAMES)
LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "properties": st.dictionaries(NAME, INNER, max_size=2),
    "required": st.lists(NAME, unique=True, max_size=2),
    "dependentRequired": st.dictionaries(NAME, st.lists(NAME, unique=True, max_size=1), max_size=1),
    "additionalProperties": INNER,
    "patternProperties": st.dictionaries(st.sampled_from(["^a", "[bc]"]), INNER, max_size=1),
    "propertyNames": st.sampled_from([{"enum": ["a", "b"]}, {"pattern": "[ab]"}, True]),
    "minProperties": st.integers(0, 2),
    "maxProperties": st.integers(0, 3),
    "type": st.sampled_from(["object", ["object", "null"]]),
    "title": st.just("T"),
}
REFERENCE = st.sampled_from([{"$ref": "#/$defs/one"}, {"$ref": "#/$defs/two", "required": ["b"]}])


def extend(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas that apply others to the same arguments."""
    several = st.lists(inner, min_size=1, max_size=3)
    keywords = dict.fromkeys(("allOf", "anyOf", "oneOf"), several) | dict.fromkeys(("not", "if", "then", "else"), inner)
    keywords["dependentSchemas"] = st.dictionaries(NAME, inner, max_size=1)
    return st.fixed_dictionaries({}, optional={**pick(LEAVES), **keywords})


def pick(keywords: dict[str, Any]) -> dict[str, Any]:
    """A few keywords, so that most schemas can be matched."""
    return {key: keywords[key] for key in ("properties", "required", "additionalProperties")}


LEAF = st.fixed_dictionaries({}, optional=LEAVES)
SCHEMA = st.recursive(st.one_of(LEAF, LEAF, REFERENCE, st.booleans()), extend, max_leaves=6)


@given(
    st.fixed_dictionaries({}, optional={"allOf": st.lists(SCHEMA, max_size=2), "anyOf": st.lists(SCHEMA, min_size=1)}),
    SCHEMA,
    st.tuples(LEAF, LEAF),
    st.sampled_from(["", "fixed", "hidden"]),
    st.sampled_from(VALUES),
)
def test_the_changed_schema_accepts_what_the_original_accepts_with_the_fixed_values(
    root: dict[str, Any], condition: Any, definitions: tuple[Any, Any], second: str, value: Any
) -> None:
    root = {
        "type": "object",
        "properties": {name: {} for name in NAMES},
        **root,
        "if": condition,
        "then": {"required": ["c"]},
        "$defs": {"one": definitions[0], "two": definitions[1]},
    }
    fixed = {"a": value} | ({"b": 2} if second == "fixed" else {})
    hidden = {"b"} if second == "hidden" else set()
    sent = [name for name in NAMES if name not in fixed and name not in hidden]
    calls = [
        {name: one for name, one in zip(sent, choice, strict=True) if one is not None}
        for choice in product((None, *VALUES), repeat=len(sent))
    ]
    original = Validator(root)
    expected = [original.is_valid({**call, **fixed}) for call in calls]
    changed = change_schema(root, ToolOverride(fixed=fixed, hidden=frozenset(hidden)))
    if changed is not None:
        assert [Validator(changed).is_valid(call) for call in calls] == expected
    else:
        assert not any(expected)


def change_schema(root: dict[str, Any], override: ToolOverride) -> dict[str, Any] | None:
    """Return the changed schema; None if no call can match it."""
    try:
        return override.apply(ToolEntry("echo", "", lambda data: data, root)).input_schema
    except ValueError as error:
        assume("is required with" not in str(error))  # such a call is possible, but its client could not find out how
        return None
