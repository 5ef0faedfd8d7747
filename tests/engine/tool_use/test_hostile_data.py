"""Nothing in data or schema makes validation raise; over JSON it agrees with a reference validator."""

import copy
import datetime
import decimal
import re
import subprocess
import sys
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from mcp_bridge.tool_use import ValidationResult, validate_input, validate_output
from tests.kits.fuzzing import use_examples


class Raiser:
    """Raises from everything a validator might be tempted to ask."""

    def _raise(self, *_):
        raise RuntimeError("do not touch")

    __repr__ = __str__ = __eq__ = __bool__ = __len__ = __iter__ = __lt__ = __gt__ = __contains__ = __format__ = _raise
    __hash__ = object.__hash__


def check(data, schema):
    result = validate_input(data, schema)
    assert isinstance(result, ValidationResult)
    assert isinstance(result.valid, bool)
    assert all(isinstance(line, str) for line in result.errors)
    assert result.valid == (not result.errors)
    return result


FOREIGN_VALUES = [b"raw", (1, 2), {1, 2}, object(), datetime.date(2026, 1, 1), Raiser()]

# Arbitrary values

SURROGATES = st.text(st.characters(categories=["Cs", "Ll", "So", "Cc"]), max_size=4)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**63, -(2**63) - 1, 2**64, 10**400]),
    st.builds(pow, st.just(-10), st.integers(4_300, 6_000)),
    st.floats(),
    st.text(max_size=4),
    SURROGATES,
    st.binary(max_size=4),
    st.complex_numbers(),
    st.decimals(),
    st.just(decimal.Decimal("sNaN")),
    st.sampled_from([object(), ..., NotImplemented, int, len, datetime.date(2026, 1, 1), uuid.UUID(int=1)]),
    st.builds(Raiser),
    st.builds(bytearray, st.binary(max_size=3)),
    st.frozensets(st.integers(), max_size=3),
    st.sets(st.text(max_size=2), max_size=3),
    st.builds(range, st.integers(0, 3)),
)
NAMES = st.sampled_from(["a", "b", "c", ""])
KEYS = st.one_of(
    NAMES, SURROGATES, st.none(), st.booleans(), st.integers(), st.floats(), st.binary(max_size=2), st.tuples()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(KEYS, inner, max_size=4),
        st.dictionaries(NAMES, inner, max_size=4),
    ),
    max_leaves=12,
)

TYPES = ["string", "integer", "number", "boolean", "array", "object", "null"]
KEYWORDS = [
    *("type", "required", "properties", "items", "enum", "minimum", "maximum", "minLength", "maxLength", "minItems"),
    *("maxItems", "additionalProperties", "anyOf", "allOf", "oneOf", "not", "if", "then", "else", "const", "pattern"),
    *("prefixItems", "contains", "minContains", "uniqueItems", "multipleOf", "patternProperties", "propertyNames"),
    *("dependentRequired", "dependentSchemas", "$ref", "$defs", "$id", "$anchor", "$schema", "$dynamicRef", "format"),
    *("unevaluatedProperties", "unevaluatedItems", "exclusiveMinimum", "minProperties", "contentSchema", "$vocabulary"),
]
POINTERS = st.sampled_from(["#", "#/nope", "#/$defs/a", "#/properties/a", "http://example.invalid/x", "urn:x", "%", ""])
SCHEMAS = st.recursive(
    st.one_of(VALUES, st.sampled_from(TYPES), POINTERS, st.lists(st.sampled_from(TYPES), max_size=3)),
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=5),
        st.dictionaries(NAMES, inner, max_size=3),
        st.lists(inner, max_size=3),
    ),
    max_leaves=16,
)


@use_examples(50)
@given(data=VALUES, schema=SCHEMAS)
def test_no_value_and_no_schema_make_validation_raise(data, schema):
    first = check(data, schema)
    assert validate_output(data, schema) == first


@use_examples(50)
@given(data=VALUES, name=st.sampled_from(TYPES))
def test_arbitrary_values_under_a_sound_schema_never_raise(data, name):
    strict = {"type": "object", "required": ["a"], "properties": {"a": {"type": name}}, "additionalProperties": False}
    check(data, strict)
    check({"a": data}, strict)
    limits = {"pattern": "a", "minimum": 0, "maxLength": 2, "maxItems": 1}
    check(data, {"type": name, "enum": [1, "a", None, [], {}], **limits})
    check(data, {"anyOf": [{"type": name}, {"const": 1}], "uniqueItems": True, "maximum": 1, "items": strict})


@pytest.mark.parametrize(
    ("number", "limit"),
    [
        *((number, {"minimum": 0}) for number in (10**5000, -(10**5000), float("nan"), float("inf"), 2**64)),
        *((10**5000, limit) for limit in ({"enum": [1]}, {"const": 1}, {"type": "string"}, {"multipleOf": 7})),
    ],
    ids=lambda value: str(value) if isinstance(value, dict | float) else "",
)
def test_numbers_beyond_every_format_do_not_make_validation_raise(number, limit):
    check(number, limit)
    check({"a": [number]}, {"properties": {"a": {"items": limit}}})


def test_a_huge_integer_is_still_compared():
    assert check(10**5000, {"type": "integer", "minimum": 0}).valid
    assert not check(10**300, {"maximum": 1}).valid
    assert not check(-(10**400), {"minimum": 0}).valid
    assert check(2**64, {"minimum": 2**64, "maximum": 2**64}).valid


def test_integers_beyond_the_precision_of_floats_are_distinguished():
    assert check(2**53 + 1, {"maximum": 2**53}).errors == [f"$: value {2**53 + 1} > maximum {2**53}"]
    assert not check(2**64 + 1, {"enum": [2**64]}).valid


@pytest.mark.parametrize(
    "payload",
    [*FOREIGN_VALUES, {1: 2}, "\ud800", float("nan")],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_is_not_json_passes_where_the_schema_does_not_speak_of_it(payload):
    schema = {"type": "object", "required": ["n"], "properties": {"payload": {}, "n": {"type": "integer"}}}
    assert check({"payload": payload, "n": 1}, schema) == ValidationResult(True, [])
    assert check({"payload": payload, "n": "x"}, schema).errors == ["$.n: expected type integer, got str"]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        *((value, "string") for value in FOREIGN_VALUES if not isinstance(value, tuple)),
        *((b"raw", name) for name in TYPES if name != "string"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_value_that_is_not_json_is_of_no_json_type(value, name):
    assert check({"a": [value]}, {"properties": {"a": {"items": {"type": name}}}}).errors == [
        f"$.a[0]: expected type {name}, got {type(value).__name__}"
    ]


def test_keys_that_are_not_text_do_not_hide_the_extra_ones():
    errors = check({1: "x", "b": 2, None: 3}, {"type": "object", "additionalProperties": False})
    assert not errors.valid
    assert "$.b: additional property not allowed" in errors.errors


def test_a_lone_surrogate_does_not_hide_what_else_is_wrong():
    schema = {"type": "object", "properties": {"a": {"pattern": "x", "maxLength": 9}, "n": {"type": "integer"}}}
    for data in ({"a": "\ud800", "n": "x"}, {"a": "y", "n": "x", "b": "\udfff"}, {"n": "x", "\ud800": 1}):
        assert "$.n: expected type integer, got str" in check(data, schema).errors


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array"},
        {"items": {"type": "array", "items": {"type": "string"}}},
        {"enum": [[]]},
        {"uniqueItems": True},
        {"anyOf": [{"items": {"$ref": "#"}}, {"additionalProperties": {"$ref": "#"}}]},
    ],
    ids=str,
)
def test_data_that_contains_itself_does_not_make_validation_raise(schema):
    ring = [1]
    ring.append(ring)
    loop = {"a": 1, "ring": ring}
    loop["self"] = loop
    for data in (ring, loop, [loop, ring], {"a": loop}):
        check(data, schema)


DEEP = """
from mcp_bridge.tool_use import ValidationResult, validate_input

for schema in {schemas!r}:
    for depth in (300, 150_000):
        data = []
        for _ in range(depth):
            data = [data]
        result = validate_input(data, schema)
        assert isinstance(result, ValidationResult) and result.valid == (not result.errors), result
        print("answered", schema, depth, flush=True)
"""
DEEP_SCHEMAS = [
    {"type": "array"},
    {"items": {"$ref": "#"}},
    {"const": [[]]},
    {"items": {"maxItems": 9}},
    {"$dynamicAnchor": "n", "items": {"$dynamicRef": "#n"}},
]


def test_very_deep_data_neither_raises_nor_ends_the_process():
    program = DEEP.format(schemas=DEEP_SCHEMAS)
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False)
    assert outcome.returncode == 0, (outcome.stdout[-200:], outcome.stderr[-2000:])
    assert outcome.stdout.count("answered") == 2 * len(DEEP_SCHEMAS)


@pytest.mark.parametrize("name", ["a", "$ref", "a.b", "a/b", "~1", "\n", "ключ"])
def test_any_name_of_a_property_is_reported_unchanged(name):
    schema = {"type": "object", "properties": {name: {"type": "integer"}}}
    assert check({name: "x"}, schema).errors == [f"$.{name}: expected type integer, got str"]
    assert check({}, {"required": [name]}).errors == [f"$.{name}: required field missing"]
    assert check({name: 1}, {"additionalProperties": False}).errors == [f"$.{name}: additional property not allowed"]


def test_a_pattern_that_explodes_elsewhere_is_answered_in_time():
    assert not check("a" * 5_000 + "!", {"pattern": "^(a+)+$"}).valid


# JSON data and sound schemas: the same verdict as the reference validator

FIELDS = st.sampled_from(["a", "b", "c"])
TEXTS = st.text(alphabet="abé😀", max_size=4)
ODD_NUMBERS = st.sampled_from([-1.5, 0.0, -0.0, 1.0, 2.0, 2.5, 2**53 + 1, 2**64, -(2**70), 1e15])
NUMBERS = st.one_of(st.integers(-3, 3), ODD_NUMBERS)
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
DATA = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(FIELDS, inner, max_size=3)),
    max_leaves=10,
)
FLAT = st.one_of(LEAVES, st.lists(LEAVES, max_size=4), st.dictionaries(FIELDS, LEAVES, max_size=3))
COUNTS = st.integers(0, 3)
PATTERNS = st.sampled_from(["^a", "b$", "^[ab]*$", "é", "^.{2}$"])


def keywords(inner):
    some = st.lists(inner, min_size=1, max_size=3)
    fields = st.lists(FIELDS, unique=True, max_size=3)
    named = st.dictionaries(FIELDS, inner, max_size=3)
    known_names = st.sampled_from(TYPES)
    one = {
        "type": st.one_of(known_names, st.lists(known_names, min_size=1, max_size=3, unique=True)),
        "required": fields,
        "properties": named,
        "items": inner,
        "enum": st.lists(DATA, min_size=1, max_size=3),
        "minimum": NUMBERS,
        "maximum": NUMBERS,
        "minLength": COUNTS,
        "maxLength": COUNTS,
        "minItems": COUNTS,
        "maxItems": COUNTS,
        "additionalProperties": inner,
    }
    other = {
        "const": DATA,
        "pattern": PATTERNS,
        "anyOf": some,
        "allOf": some,
        "oneOf": some,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "prefixItems": some,
        "contains": inner,
        "uniqueItems": st.booleans(),
        "multipleOf": st.integers(1, 3),
        "exclusiveMinimum": st.integers(-3, 3),
        "exclusiveMaximum": st.integers(-3, 3),
        "minProperties": COUNTS,
        "maxProperties": COUNTS,
        "propertyNames": inner,
        "patternProperties": st.dictionaries(PATTERNS, inner, max_size=2),
        "dependentRequired": st.dictionaries(FIELDS, fields, max_size=2),
        "unevaluatedProperties": inner,
        "unevaluatedItems": inner,
    }
    every = one | other
    choice = st.lists(st.one_of(st.sampled_from(sorted(one)), st.sampled_from(sorted(every))), max_size=4, unique=True)
    return choice.flatmap(lambda names: st.fixed_dictionaries({name: every[name] for name in names}))


PLAIN = st.recursive(st.booleans() | keywords(st.booleans()), keywords, max_leaves=6)
REFERRING = st.recursive(st.booleans() | st.just({"$ref": "#/$defs/n"}), keywords, max_leaves=6)
SOUND = st.builds(
    lambda body, definition: {**body, "$defs": {"n": definition}} if body else body,
    REFERRING.filter(lambda schema: isinstance(schema, dict)),
    PLAIN,
)


@use_examples(100)
@given(data=DATA, schema=SOUND)
def test_the_verdict_on_json_is_that_of_the_reference_validator(data, schema):
    data_before, schema_before = copy.deepcopy(data), copy.deepcopy(schema)
    errors = check(data, schema)
    assert errors.valid == Draft202012Validator(schema).is_valid(data)
    assert all(re.match(r"\$[^:]*: .", line, re.DOTALL) for line in errors.errors)
    assert (data, schema) == (data_before, schema_before)


@use_examples(100)
@given(data=FLAT, schema=keywords(st.booleans()))
def test_the_verdict_on_flat_json_is_that_of_the_reference_validator(data, schema):
    assert check(data, schema).valid == Draft202012Validator(schema).is_valid(data)
