"""validate_input and validate_output: valid data, and the exact line for each problem."""

import copy
import enum
import re
import socket
import subprocess
import sys

import pytest

from mcp_bridge.tool_use import ValidationResult, validate_input, validate_output

PERSON = {
    "type": "object",
    "required": ["name", "age"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 5},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        "home": {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}},
    },
    "additionalProperties": False,
}


def list_errors(data, schema):
    result = validate_input(data, schema)
    assert isinstance(result, ValidationResult)
    assert result.valid == (not result.errors)
    return result.errors


def name_of(schema):
    return re.sub(r" at 0x\w+", "", ascii(schema))


# The result


def test_a_validation_result_is_valid_and_without_errors_by_default():
    assert ValidationResult() == ValidationResult(valid=True, errors=[])


def test_results_do_not_share_their_error_list():
    first = ValidationResult()
    first.errors.append("x")
    assert ValidationResult().errors == []


@pytest.mark.parametrize(
    ("left", "right", "valid"), [(True, True, True), (True, False, False), (False, True, False), (False, False, False)]
)
def test_merged_results_are_valid_only_when_both_are(left, right, valid):
    assert ValidationResult(left).merge(ValidationResult(right)).valid is valid


def test_merging_joins_the_errors_in_order_in_a_new_result():
    left, right = ValidationResult(False, ["a", "b"]), ValidationResult(False, ["c"])
    merged = left.merge(right)
    assert merged == ValidationResult(False, ["a", "b", "c"])
    assert (left.errors, right.errors) == (["a", "b"], ["c"])
    merged.errors.append("d")
    assert left.errors == ["a", "b"]


def test_a_result_as_a_dictionary_has_valid_and_errors():
    assert ValidationResult(False, ["$: bad"]).to_dict() == {"valid": False, "errors": ["$: bad"]}
    assert ValidationResult().to_dict() == {"valid": True, "errors": []}


def test_success_has_no_errors_and_failure_has_some():
    assert validate_input({"name": "Ann", "age": 3}, PERSON) == ValidationResult(True, [])
    failure = validate_input({"name": "Ann"}, PERSON)
    assert failure == ValidationResult(False, ["$.age: required field missing"])


@pytest.mark.parametrize(("data", "schema"), [(None, {}), ({"a": {"b": 1}}, {}), ([1], None), ({"a": b"raw"}, None)])
def test_without_a_schema_everything_is_valid(data, schema):
    assert validate_input(data, schema) == ValidationResult(True, [])
    assert validate_output(data, schema) == ValidationResult(True, [])


@pytest.mark.parametrize(
    ("data", "schema"),
    [
        ({"name": "Ann", "age": 3}, PERSON),
        ({"name": 1, "age": "x", "tags": [1], "z": 1}, PERSON),
        (5, {"type": "string"}),
        ("ab", {"pattern": "^c"}),
    ],
)
def test_output_is_validated_like_input(data, schema):
    assert validate_output(data, schema) == validate_input(data, schema)


def test_validation_changes_neither_data_nor_schema():
    data = {"name": "Annabel", "tags": [1, "a", "b"], "z": {}}
    before, schema_before = copy.deepcopy(data), copy.deepcopy(PERSON)
    assert list_errors(data, PERSON)
    assert data == before
    assert schema_before == PERSON


def test_a_schema_changed_between_two_calls_is_read_anew():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert list_errors({"a": 1}, schema) == ["$.a: expected type string, got int"]
    schema["properties"]["a"]["type"] = "integer"
    assert list_errors({"a": 1}, schema) == []


# Types


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("string", ""),
        ("string", "x"),
        ("integer", 0),
        ("integer", -7),
        ("integer", 1.0),
        ("integer", 10**30),
        ("number", 1),
        ("number", 1.5),
        ("boolean", True),
        ("boolean", False),
        ("array", []),
        ("array", [1, "a"]),
        ("object", {}),
        ("object", {"a": 1}),
        ("null", None),
    ],
)
def test_a_value_of_the_named_type_is_valid(name, data):
    assert list_errors(data, {"type": name}) == []


@pytest.mark.parametrize(
    ("name", "data", "got"),
    [
        ("string", 1, "int"),
        ("string", None, "NoneType"),
        ("string", b"x", "bytes"),
        ("integer", "1", "str"),
        ("integer", 1.5, "float"),
        ("integer", True, "bool"),
        ("integer", False, "bool"),
        ("number", "1.5", "str"),
        ("number", True, "bool"),
        ("boolean", 1, "int"),
        ("boolean", 0, "int"),
        ("boolean", "true", "str"),
        ("array", {}, "dict"),
        ("array", "abc", "str"),
        ("array", {1}, "set"),
        ("object", [], "list"),
        ("object", None, "NoneType"),
        ("null", 0, "int"),
        ("null", "", "str"),
        ("null", False, "bool"),
    ],
)
def test_a_value_of_another_type_is_named_by_its_python_type(name, data, got):
    assert list_errors(data, {"type": name}) == [f"$: expected type {name}, got {got}"]


def test_a_tuple_is_validated_as_an_array():
    assert list_errors((1, 2), {"type": "array", "items": {"type": "integer"}}) == []
    assert list_errors((1, "2"), {"items": {"type": "integer"}}) == ["$[1]: expected type integer, got str"]


def test_a_member_of_a_text_enumeration_is_its_value():
    class Colour(str, enum.Enum):  # noqa: UP042 - the str() of a StrEnum is its value
        RED = "red"

    schema = {"properties": {"a": {"pattern": "^r"}, "b": {"type": "integer"}}}
    assert list_errors({"a": Colour.RED, "b": "x"}, schema) == ["$.b: expected type integer, got str"]


def test_a_value_of_any_listed_type_is_valid():
    assert list_errors("x", {"type": ["string", "null"]}) == []
    assert list_errors(None, {"type": ["string", "null"]}) == []


def test_a_list_of_types_is_shown_as_given():
    assert list_errors(5, {"type": ["string", "null"]}) == ["$: expected type ['string', 'null'], got int"]


@pytest.mark.parametrize("data", [1, "x", None, [], {}])
def test_an_unknown_type_name_is_ignored(data):
    assert list_errors(data, {"type": "foo"}) == []
    assert list_errors(data, {"type": ["foo", "bar"]}) == []


def test_a_known_type_next_to_an_unknown_one_is_checked():
    schema = {"type": ["foo", "string"]}
    assert list_errors("x", schema) == []
    assert list_errors(5, schema) == ["$: expected type ['foo', 'string'], got int"]


def test_an_unknown_type_name_leaves_the_other_keywords_in_force():
    schema = {"type": "foo", "properties": {"a": {"type": "string"}}, "required": ["b"]}
    assert list_errors({"a": 1}, schema) == ["$.b: required field missing", "$.a: expected type string, got int"]


@pytest.mark.parametrize(
    ("data", "schema"),
    [
        (5, {"type": "string", "enum": ["a"], "const": "a"}),
        ("x", {"type": "integer", "minLength": 4, "pattern": "^y"}),
        ({"a": 1}, {"type": "array", "required": ["b"], "additionalProperties": False}),
        ([1], {"type": "object", "items": {"type": "string"}, "minItems": 3, "anyOf": [{"type": "string"}]}),
    ],
)
def test_a_type_error_is_the_only_error_of_its_node(data, schema):
    assert list_errors(data, schema) == [f"$: expected type {schema['type']}, got {type(data).__name__}"]


def test_a_type_error_at_one_node_does_not_stop_the_others():
    data = {"name": 1, "age": "x"}
    assert list_errors(data, PERSON) == [
        "$.name: expected type string, got int",
        "$.age: expected type integer, got str",
    ]


# The other keywords of the API


@pytest.mark.parametrize(
    ("data", "schema", "error"),
    [
        ("c", {"enum": ["a", "b"]}, "$: value 'c' not in enum ['a', 'b']"),
        (3, {"enum": [1, 2]}, "$: value 3 not in enum [1, 2]"),
        (None, {"enum": ["a"]}, "$: value None not in enum ['a']"),
        ("ab", {"minLength": 3}, "$: string length 2 < minLength 3"),
        ("abcd", {"maxLength": 3}, "$: string length 4 > maxLength 3"),
        (1, {"minimum": 2}, "$: value 1 < minimum 2"),
        (3, {"maximum": 2}, "$: value 3 > maximum 2"),
        (1.5, {"minimum": 2.25}, "$: value 1.5 < minimum 2.25"),
        (2.5, {"maximum": 2}, "$: value 2.5 > maximum 2"),
        ([], {"minItems": 1}, "$: array length 0 < minItems 1"),
        ([1, 2, 3], {"maxItems": 2}, "$: array length 3 > maxItems 2"),
        ({}, {"required": ["a"]}, "$.a: required field missing"),
        ({"b": 1}, {"properties": {"a": {}}, "additionalProperties": False}, "$.b: additional property not allowed"),
        (["a", 1], {"items": {"type": "string"}}, "$[1]: expected type string, got int"),
        ({"a": 1}, {"properties": {"a": {"type": "string"}}}, "$.a: expected type string, got int"),
    ],
)
def test_each_keyword_has_its_message(data, schema, error):
    assert list_errors(data, schema) == [error]


@pytest.mark.parametrize(
    ("data", "schema"),
    [
        ("a", {"enum": ["a", "b"]}),
        ("abc", {"minLength": 3, "maxLength": 3}),
        (2, {"minimum": 2, "maximum": 2}),
        (2.0, {"minimum": 2, "maximum": 2}),
        ([1, 2], {"minItems": 2, "maxItems": 2}),
        ({"a": None}, {"required": ["a"]}),
        ({"a": 1}, {"properties": {"a": {}}, "additionalProperties": False}),
        ({"b": 1}, {"properties": {"a": {"type": "string"}}}),
        ({"b": 1}, {"additionalProperties": True}),
        ({}, {"properties": {"a": {"type": "string"}}}),
        ([], {"items": {"type": "string"}}),
    ],
)
def test_limits_are_inclusive_and_absent_fields_are_not_checked(data, schema):
    assert list_errors(data, schema) == []


@pytest.mark.parametrize(
    ("data", "schema"),
    [
        (5, {"minLength": 9, "maxLength": 0, "minItems": 9, "maxItems": 0}),
        ("x", {"minimum": 9, "maximum": 0, "minItems": 9, "items": {"type": "null"}}),
        ([], {"minLength": 9, "minimum": 9, "required": ["a"]}),
        ("x", {"required": ["x"], "properties": {"x": {"type": "null"}}, "additionalProperties": False}),
        ({"a": 1}, {"minLength": 9, "minItems": 9, "minimum": 9}),
        (None, {"minLength": 9, "minItems": 9, "minimum": 9, "required": ["a"]}),
    ],
)
def test_a_keyword_does_not_apply_to_values_of_other_types(data, schema):
    assert list_errors(data, schema) == []


@pytest.mark.parametrize("data", [True, False])
def test_limits_on_numbers_do_not_apply_to_booleans(data):
    assert list_errors(data, {"minimum": 5, "maximum": -5}) == []


def test_string_length_counts_characters():
    assert list_errors("é😀", {"minLength": 2, "maxLength": 2}) == []
    assert list_errors("😀", {"minLength": 2}) == ["$: string length 1 < minLength 2"]


@pytest.mark.parametrize(
    ("data", "enum"), [(True, [1]), (False, [0]), (1, [True]), (0, [False]), ([True], [[1]]), ({"a": 1}, [{"a": True}])]
)
def test_booleans_and_numbers_are_different_members_of_an_enum(data, enum):
    assert list_errors(data, {"enum": enum}) == [f"$: value {data!r} not in enum {enum}"]


@pytest.mark.parametrize(
    ("data", "enum"), [(1.0, [1]), (1, [1.0]), (True, [True]), ([1], [[1]]), ({"a": 1}, [{"a": 1}])]
)
def test_equal_json_values_are_the_same_member_of_an_enum(data, enum):
    assert list_errors(data, {"enum": enum}) == []


def test_an_enum_error_does_not_stop_later_checks():
    assert list_errors("abcd", {"type": "string", "enum": ["a"], "maxLength": 2}) == [
        "$: value 'abcd' not in enum ['a']",
        "$: string length 4 > maxLength 2",
    ]


# Paths and order


def test_paths_name_every_level():
    schema = {"properties": {"a": {"items": {"properties": {"b": {"items": {"type": "integer"}}}}}}}
    data = {"a": [{"b": [1]}, {"b": [1, "x"]}]}
    assert list_errors(data, schema) == ["$.a[1].b[1]: expected type integer, got str"]


def test_a_missing_field_of_a_nested_object_is_named_with_its_path():
    data = {"name": "Ann", "age": 1, "home": {}}
    assert list_errors(data, PERSON) == ["$.home.city: required field missing"]


def test_errors_of_an_object_come_as_required_then_properties_then_additional():
    data = {"zeta": 1, "tags": [1, "a", "b"], "name": "Annabel", "home": {"city": 5}, "alpha": 2}
    assert list_errors(data, PERSON) == [
        "$.age: required field missing",
        "$.name: string length 7 > maxLength 5",
        "$.tags: array length 3 > maxItems 2",
        "$.tags[0]: expected type string, got int",
        "$.home.city: expected type string, got int",
        "$.alpha: additional property not allowed",
        "$.zeta: additional property not allowed",
    ]


def test_properties_are_reported_in_the_order_of_the_schema_not_of_the_data():
    schema = {"properties": {"b": {"type": "string"}, "a": {"type": "string"}}}
    assert list_errors({"a": 1, "b": 2}, schema) == [
        "$.b: expected type string, got int",
        "$.a: expected type string, got int",
    ]


def test_missing_fields_are_reported_in_the_order_of_the_schema():
    assert list_errors({}, {"required": ["b", "c", "a"]}) == [
        "$.b: required field missing",
        "$.c: required field missing",
        "$.a: required field missing",
    ]


def test_every_bad_item_is_reported():
    assert list_errors([1, "a", None], {"items": {"type": "string"}}) == [
        "$[0]: expected type string, got int",
        "$[2]: expected type string, got NoneType",
    ]


# The other keywords of JSON Schema 2020-12

TREE = {
    "type": "object",
    "required": ["value"],
    "properties": {"value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#"}}},
}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"properties": {"a": True}}, {"a": 1}, None),
        ({"properties": {"a": False}}, {}, {"a": 1}),
        ({"items": True}, [1], None),
        ({"items": False}, [], [1]),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, 1, None),
        ({"anyOf": [{"type": "string"}, {"minimum": 5}]}, 5, 4),
        ({"oneOf": [{"type": "integer"}, {"minimum": 5}]}, 4, 6),
        ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, 2, 4),
        ({"not": {"type": "string"}}, 1, "x"),
        ({"pattern": "^a+$"}, "aa", "ab"),
        ({"pattern": "b"}, "abc", "ac"),
        ({"const": "x"}, "x", "y"),
        ({"const": 1}, 1.0, True),
        ({"const": False}, False, 0),
        ({"const": None}, None, 0),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, 1, "x"),
        (TREE, {"value": 1, "children": [{"value": 2}]}, {"value": 1, "children": [{"value": "x"}]}),
        ({"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"type": "null"}}, "ab", "a"),
        ({"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"type": "null"}}, None, 5),
        ({"prefixItems": [{"type": "string"}, {"type": "integer"}]}, ["a", 1, None], ["a", "b"]),
        ({"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}, ["a", 1], ["a", "b"]),
        ({"prefixItems": [{"type": "string"}], "items": False}, ["a"], ["a", 1]),
        ({"properties": {"a": {}}, "additionalProperties": {"type": "integer"}}, {"a": "x", "b": 1}, {"b": "x"}),
        ({"patternProperties": {"^n_": {"type": "integer"}}}, {"n_a": 1, "b": "x"}, {"n_a": "x"}),
        ({"patternProperties": {"^n_": {}}, "additionalProperties": False}, {"n_a": 1}, {"m": 1}),
        ({"exclusiveMinimum": 1}, 1.5, 1),
        ({"exclusiveMaximum": 1}, 0, 1),
        ({"multipleOf": 3}, 9, 10),
        ({"uniqueItems": True}, [1, True, "1"], [1, 1.0]),
        ({"contains": {"type": "string"}}, [1, "a"], [1, 2]),
        ({"contains": {"type": "string"}, "minContains": 2}, ["a", "b"], ["a", 1]),
        ({"minProperties": 1}, {"a": 1}, {}),
        ({"maxProperties": 1}, {"a": 1}, {"a": 1, "b": 2}),
        ({"propertyNames": {"maxLength": 1}}, {"a": 1}, {"ab": 1}),
        ({"dependentRequired": {"a": ["b"]}}, {"b": 1}, {"a": 1}),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1, "b": 1}, {"a": 1}),
        ({"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}, {"a": 1}, {"b": 1}),
    ],
)
def test_other_keywords_of_json_schema_are_checked(schema, good, bad):
    assert list_errors(good, schema) == []
    if bad is not None:
        errors = list_errors(bad, schema)
        assert errors
        assert all(line.startswith("$") and ": " in line for line in errors)


@pytest.mark.parametrize(
    ("schema", "bad"),
    [
        ({"pattern": "^a"}, "b"),
        ({"const": 1}, 2),
        ({"exclusiveMinimum": 3}, 3),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 3),
        ({"not": {}}, 3),
    ],
)
def test_a_broken_rule_of_a_nested_value_is_reported_once_under_its_path(schema, bad):
    nested = {"properties": {"a": {"items": schema}}}
    [line] = list_errors({"a": [bad]}, nested)
    path, _, text = line.partition(": ")
    assert path == "$.a[0]"
    assert text


def test_a_referenced_schema_is_checked_under_the_path_of_the_value():
    schema = {"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}
    [line] = list_errors({"a": "x"}, schema)
    assert line.startswith("$.a: ")


def test_the_schema_of_additional_properties_is_checked_under_the_name_of_each():
    schema = {"properties": {"a": {}}, "additionalProperties": {"type": "integer"}}
    [line] = list_errors({"a": "x", "b": 1, "c": "x"}, schema)
    assert line.startswith("$.c: ")


def test_missing_and_invalid_arguments_are_reported_together():
    schema = {
        "type": "object",
        "required": ["b"],
        "properties": {"a": {"type": "string", "maxLength": 1, "pattern": "^z"}},
    }
    errors = list_errors({"a": "xy"}, schema)
    assert errors[:1] == ["$.b: required field missing"]
    assert "$.a: string length 2 > maxLength 1" in errors
    [problem] = [line for line in errors if line not in {errors[0], "$.a: string length 2 > maxLength 1"}]
    assert problem.startswith("$.a: ")


def test_an_enum_error_does_not_hide_a_pattern_error():
    errors = list_errors("b", {"enum": ["a"], "pattern": "^a"})
    assert "$: value 'b' not in enum ['a']" in errors
    assert len(errors) == 2


# Schemas that cannot be used

BROKEN = [
    {"type": 12},
    {"type": None},
    {"type": {}},
    {"type": []},
    {"type": [12]},
    {"type": [["string"]]},
    {"pattern": "("},
    {"pattern": 5},
    {"required": "a"},
    {"required": 5},
    {"required": [5, None, ["a"]]},
    {"properties": 5},
    {"properties": ["a"]},
    {"properties": {"a": 5}},
    {"properties": {"a": None}},
    {"properties": {"a": "string"}},
    {"properties": {5: {"type": "string"}}},
    {"items": 5},
    {"items": None},
    {"items": [{"type": "string"}]},
    {"enum": 5},
    {"enum": "abc"},
    {"enum": None},
    {"minimum": "a"},
    {"maximum": None},
    {"maximum": [1]},
    {"minLength": "a"},
    {"maxLength": None},
    {"minItems": 1.5},
    {"maxItems": "x"},
    {"maxItems": -1},
    {"additionalProperties": 5},
    {"additionalProperties": None},
    {"anyOf": 5},
    {"anyOf": []},
    {"anyOf": [5]},
    {"$ref": "#/nope"},
    {"$ref": 5},
    {"$ref": "#"},
    {"$ref": "http://example.invalid/x"},
    {"$schema": "http://example.invalid/schema"},
    {"$schema": 5},
    {"$id": "::not a uri::"},
    {"$dynamicRef": "#nope"},
    {"const": {1, 2}},
    {"enum": [b"x", {1}]},
    {"default": object()},
    {5: "x"},
    {None: None},
    {"multipleOf": 0},
    {"patternProperties": {"(": {}}},
    {"minimum": float("nan")},
    {"title": "\ud800"},
    {"type": "\ud800"},
]


BROKEN_BELOW = [
    {"type": 12},
    {"pattern": "("},
    {"required": 5},
    {"properties": 5},
    {"items": [{"type": "string"}]},
    {"enum": 5},
    {"minimum": "a"},
    {"anyOf": [5]},
    {"$ref": "#/nope"},
    {"$schema": 5},
    {"const": {1, 2}},
    {5: "x"},
]
NOT_SCHEMAS = [12, "string", [], ["type"], b"x", True, False, object()]
KINDS_OF_DATA = [None, 1, 1.5, "abc", "", [1, "a"], {}, {"a": 1}, {"b": {"c": []}}, (1,)]


@pytest.mark.parametrize("schema", [*BROKEN, *NOT_SCHEMAS], ids=name_of)
def test_no_schema_makes_validation_raise(schema):
    for data in KINDS_OF_DATA:
        list_errors(data, schema)
        assert validate_output(data, schema) == validate_input(data, schema)


@pytest.mark.parametrize("schema", BROKEN_BELOW, ids=name_of)
def test_no_sub_schema_makes_validation_raise(schema):
    list_errors({"a": {"b": 1}, "c": [1]}, {"properties": {"a": schema}, "anyOf": [schema], "items": schema})
    list_errors([1, "a", {}], {"items": schema})


@pytest.mark.parametrize("broken", [{"pattern": "("}, {"$ref": "#/nope"}, {"required": 5}, {"default": b"x"}])
def test_one_keyword_that_cannot_be_used_does_not_silence_the_others(broken):
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": broken}}
    assert "$.a: expected type string, got int" in list_errors({"a": 1}, schema)
    assert list_errors(5, schema) == ["$: expected type object, got int"]


def test_a_schema_that_contains_itself_does_not_make_validation_raise():
    schema = {"type": "object", "properties": {}}
    schema["properties"]["self"] = schema
    schema["anyOf"] = [schema]
    for data in (1, {}, {"self": {"self": {}}}, {"self": {"self": 5}}):
        list_errors(data, schema)


def test_a_very_deep_schema_neither_raises_nor_ends_the_process():
    program = """
from mcp_bridge.tool_use import validate_input

schema, data = {"type": "string"}, "x"
for _ in range(20_000):
    schema, data = {"items": schema}, [data]
result = validate_input(data, schema)
assert result.valid == (not result.errors), result
print("answered")
"""
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False)
    assert (outcome.stdout, outcome.returncode) == ("answered\n", 0), outcome.stderr[-2000:]


def test_a_reference_to_itself_ends():
    list_errors({"a": 1}, {"$ref": "#"})
    list_errors({"a": 1}, {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}})


def test_a_remote_reference_is_never_fetched():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        list_errors({"a": 1}, {"$ref": url})
        list_errors({"a": 1}, {"properties": {"a": {"$ref": f"{url}#/$defs/a"}}})
        list_errors({"a": 1}, {"$schema": url, "type": "object"})
        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_file_is_never_read_for_a_reference(tmp_path):
    (tmp_path / "secret.json").write_text('{"type": "string"}')
    schema = {"$ref": (tmp_path / "secret.json").as_uri()}
    # The file accepts text only. It is not read, so text and numbers have the same verdict.
    assert bool(list_errors("x", schema)) == bool(list_errors(5, schema))
