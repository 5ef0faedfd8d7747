"""The schemas of Python tools have no references, except where a type contains itself."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, RootModel, create_model

from mcp_bridge import tool
from mcp_bridge._json_schema.inference import infer_signature
from mcp_bridge._json_schema.inlining import inline_definitions
from mcp_bridge._json_schema.validator import Validator
from mcp_bridge._protocol.dialects.linting import lint
from mcp_bridge._protocol.dialects.table import PROFILES
from mcp_bridge.testing import connect
from tests.kits.fuzzing import use_examples
from tests.kits.schema.fuzz_schemas import DATA, SOUND
from tests.kits.schema.typed_functions import Place, Trip, Unit
from tests.kits.wire.speaking import build_registry, list_tools

UNIT = {"type": "string", "enum": ["celsius", "kelvin"]}


class Reading(BaseModel):
    unit: Unit
    value: Annotated[int, Field(ge=0)]


class Station(BaseModel):
    reading: Reading
    fallback: Annotated[Unit, Field(description="Used without a reading.")] = Unit.KELVIN


class Tree(BaseModel):
    station: Station
    branches: list[Tree] = []


class Question(BaseModel):
    answers: list[Answer]


class Answer(BaseModel):
    question: Question | None = None


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Numbers(RootModel[list[int]]): ...


def read_input_schema(annotation: Any) -> dict[str, Any]:
    def query(value: Any) -> None: ...

    query.__annotations__["value"] = annotation
    return infer_signature(query).input_schema


def test_a_parameter_that_is_a_model_is_described_in_its_place() -> None:
    reading = {
        "type": "object",
        "properties": {"unit": UNIT, "value": {"type": "integer", "minimum": 0}},
        "required": ["unit", "value"],
    }
    fallback = {**UNIT, "description": "Used without a reading.", "default": "kelvin"}
    assert read_input_schema(Station) == {
        "type": "object",
        "properties": {
            "value": {
                "type": "object",
                "properties": {"reading": reading, "fallback": fallback},
                "required": ["reading"],
            }
        },
        "required": ["value"],
        "additionalProperties": False,
    }


def test_a_result_that_is_a_model_is_described_in_its_place() -> None:
    def query() -> list[Station]: ...

    assert "$ref" not in str(infer_signature(query).output_schema)
    assert infer_signature(query).output_schema["items"]["properties"]["reading"]["properties"]["unit"] == UNIT


def test_a_model_that_contains_itself_keeps_its_reference_and_no_other() -> None:
    schema = read_input_schema(Tree)
    assert schema["properties"]["value"] == {"$ref": "#/$defs/Tree"}
    [(name, definition)] = schema["$defs"].items()
    assert name == "Tree"
    assert definition["properties"]["branches"]["items"] == {"$ref": "#/$defs/Tree"}
    assert definition["properties"]["station"]["properties"]["reading"]["properties"]["unit"] == UNIT


@pytest.mark.parametrize("annotation", [Question, Answer, dict[str, Question | Answer]])
def test_models_that_contain_each_other_keep_one_reference(annotation: Any) -> None:
    schema = read_input_schema(annotation)
    assert len(schema["$defs"]) == 1
    assert Validator(schema).ignored_keywords == ()
    assert Validator(schema).is_valid({"value": {}}) == (annotation is not Question)


def test_a_union_by_discriminator_has_no_mapping_to_definitions_that_are_gone() -> None:
    schema = read_input_schema(Annotated[Cat | Dog, Field(discriminator="kind")])
    assert schema["properties"]["value"]["discriminator"] == {"propertyName": "kind"}
    assert [item["properties"]["kind"]["const"] for item in schema["properties"]["value"]["oneOf"]] == ["cat", "dog"]


def test_references_that_multiply_a_schema_stay() -> None:
    inner: Any = create_model("Inner", text=(Annotated[str, Field(description="x" * 500)], ...))
    for level in range(12):
        inner = create_model(f"Level{level}", first=(inner, ...), second=(inner, ...))
    schema = read_input_schema(inner)
    assert schema["properties"]["value"] == {"$ref": "#/$defs/Level11"}
    assert len(schema["$defs"]) == 13
    assert Validator(schema).ignored_keywords == ()


async def test_problems_have_their_paths_in_the_arguments() -> None:
    @tool
    def plan(trip: Trip, tree: Tree | None = None) -> str:
        return "planned"

    arguments = {
        "trip": {"stops": [{"name": "Ulm"}, {"name": 5, "tags": ["a", 1]}]},
        "tree": {"branches": [], "station": {"reading": {"unit": "rankine", "value": -1}}},
    }
    async with connect(build_registry(plan.tool_entry)) as client:  # type: ignore[attr-defined]
        result = await client.call_tool("plan", arguments)
        [definition] = await list_tools(client)
    text = result.content[0].text
    assert result.is_error
    assert "$.trip.stops[1].name: expected type string, got integer" in text
    assert "$.trip.stops[1].tags[1]: expected type string, got integer" in text
    assert "$.tree.station.reading.unit: " in text
    assert "$.tree.station.reading.value: " in text
    assert list(definition["inputSchema"]["$defs"]) == ["Tree"]


def test_no_client_rejects_a_tool_with_models() -> None:
    @tool
    def move(place: Place, unit: Unit, trips: list[Trip]) -> Station: ...

    entry = move.tool_entry  # type: ignore[attr-defined]
    definition = {"name": "move", "inputSchema": entry.input_schema, "outputSchema": entry.output_schema}
    findings = [finding for profile in PROFILES.values() for finding in lint([definition], profile)]
    assert not [finding for finding in findings if "$ref" in finding.text]


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"$ref": "#"}}},
        {"properties": {"a": {"$ref": "#/$defs/missing"}}},
        {"properties": {"a": {"$ref": "https://example.com/elsewhere"}}},
    ],
)
def test_a_reference_that_leads_elsewhere_stays(schema: dict[str, Any]) -> None:
    assert inline_definitions(schema) is schema


@use_examples(40)
@given(schema=SOUND, data=st.lists(DATA, min_size=1, max_size=4))
def test_a_schema_accepts_the_same_values_with_and_without_references(schema: dict[str, Any], data: list[Any]) -> None:
    original, inlined_validator = Validator(schema), Validator(inline_definitions(schema))
    assert bool(inlined_validator.ignored_keywords) <= bool(original.ignored_keywords)
    if not original.ignored_keywords:
        assert [inlined_validator.is_valid(value) for value in data] == [original.is_valid(value) for value in data]


@pytest.mark.parametrize(("value", "fits"), [([1, 2], True), (["1"], False)])
def test_a_root_model_is_described_in_its_place(value: list[Any], fits: bool) -> None:
    schema = read_input_schema(Numbers)
    assert schema["properties"]["value"] == {"type": "array", "items": {"type": "integer"}}
    assert Validator(schema).is_valid({"value": value}) is fits
