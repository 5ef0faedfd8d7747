"""The schemas of typed functions: valid arguments, and their conversion to values."""
# ruff: noqa: UP007, UP045 - the old spellings are read too

from __future__ import annotations

import functools
import inspect
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union

import annotated_types
import pytest
from pydantic import AfterValidator, BaseModel, Field, SecretStr

from mcp_bridge._contracts.context import CallContext
from mcp_bridge._json_schema.inference import infer_signature
from tests.kits.schema.typed_functions import (
    Kind,
    Level,
    Node,
    OldOptions,
    Opaque,
    Options,
    Period,
    Place,
    Point,
    Trip,
    Unit,
    get_problems,
    is_valid,
    make_function,
)

if typing.TYPE_CHECKING:
    from nowhere import Missing


# -- values --------------------------------------------------------------------------------------------------

VALUES = [
    (int, 1, 1, "1"),
    (float, 1, 1.0, "1"),
    (date, "2026-01-02", date(2026, 1, 2), 5),
    (Decimal, 2, Decimal(2), True),
    (Path, "/tmp/x", Path("/tmp/x"), 1),
    (bytes, "abc", b"abc", 1),
    (Level, 1, Level.LOW, 2),
    (Literal["a", 1], 1, 1, 2),
    (Literal[Kind.PLAIN], "plain", Kind.PLAIN, "other"),
    (Optional[int], None, None, "1"),
    (Union[int, str], "1", "1", []),
    (date | None, "2026-01-02", date(2026, 1, 2), 1),
    (list[Unit], ["kelvin"], [Unit.KELVIN], ["miles"]),
    (set[int], [1, 2], {1, 2}, ["1"]),
    (tuple[int, str], [1, "a"], (1, "a"), [1]),
    (Sequence[date], ["2026-01-02"], [date(2026, 1, 2)], [1]),
    (Mapping[str, int], {"a": 1}, {"a": 1}, {"a": "1"}),
    (dict[Unit, int], {"kelvin": 1}, {Unit.KELVIN: 1}, {"kelvin": "1"}),
    (dict[int, str], {"1": "a"}, {1: "a"}, {"1": 1}),
    (Point, [1, 2], Point(1, 2), ["1"]),
    (Options, {"deep": True}, {"deep": True}, {"depth": 1}),
    (Period, {"start": "2026-01-02"}, Period(date(2026, 1, 2)), {"start": "2026-01-02", "days": "1"}),
    (Place, {"name": "Oslo", "tags": ["a"]}, Place(name="Oslo", tags={"a"}), {"name": 1}),
    (Trip, {"stops": [{"name": "A"}]}, Trip(stops=[Place(name="A")]), {"stops": [{}]}),
    (Node, {"value": 1, "next": {"value": 2}}, Node(value=1, next=Node(value=2)), {"value": 1, "next": {}}),
    (list[Place] | Place, {"name": "A"}, Place(name="A"), 1),
    (Annotated[int, Field(ge=3)], 3, 3, 2),
    (Annotated[str, annotated_types.Len(2, 3)], "ab", "ab", "abcd"),
    (dict, {"a": [1]}, {"a": [1]}, []),
]


@pytest.mark.parametrize(("annotation", "good", "value", "bad"), VALUES, ids=lambda item: str(item)[:40])
def test_bind_accepts_the_same_values_as_the_schema_and_builds_instances(
    annotation: Any, good: Any, value: Any, bad: Any
) -> None:
    signature = infer_signature(make_function(annotation))
    assert is_valid(signature.input_schema, {"it": good})
    assert not is_valid(signature.input_schema, {"it": bad})
    bound = signature.bind({"it": good})
    assert bound == {"it": value}
    assert type(bound["it"]) is type(value)
    assert get_problems(signature, {"it": bad})[0].startswith("$.it")


@pytest.mark.parametrize(("annotation", "value"), [(int, 1), (list[int], [1]), (Node, Node(value=1)), (float, 1.0)])
def test_a_whole_float_is_an_integer_as_in_json_schema(annotation: Any, value: Any) -> None:
    data = {"it": {int: 1.0, Node: {"value": 1.0}, float: 1.0}.get(annotation, [1.0])}
    signature = infer_signature(make_function(annotation))
    assert is_valid(signature.input_schema, data)
    assert signature.bind(data) == {"it": value}


def test_a_broken_number_is_no_integer() -> None:
    assert get_problems(infer_signature(make_function(int)), {"it": 1.5}) == ("$.it: Input should be a valid integer",)


@pytest.mark.parametrize("value", [1.0, [1, {"b": None}]])
@pytest.mark.parametrize("annotation", [inspect.Parameter.empty, Any])
def test_without_a_type_any_json_value_passes_unchanged(annotation: Any, value: Any) -> None:
    signature = infer_signature(make_function(annotation))
    assert is_valid(signature.input_schema, {"it": value})
    assert signature.bind({"it": value}) == {"it": value}


# -- problems ------------------------------------------------------------------------------------------------


def test_problems_carry_the_path_to_the_value() -> None:
    signature = infer_signature(make_function(Trip))
    assert get_problems(signature, {"it": {"stops": [{"name": "A"}, {"name": 1, "tags": [2]}, {}]}}) == (
        "$.it.stops[1].name: Input should be a valid string",
        "$.it.stops[1].tags[0]: Input should be a valid string",
        "$.it.stops[2].name: Field required",
    )


def test_problems_in_a_union_name_the_value_and_not_the_branch() -> None:
    assert get_problems(infer_signature(make_function(int | list[int])), {"it": "x"}) == (
        "$.it: Input should be a valid integer",
        "$.it: Input should be a valid array",
    )


def test_branches_with_equal_problems_report_them_once() -> None:
    either = Annotated[int, Field(le=1)] | Annotated[int, Field(ge=9)]
    assert get_problems(infer_signature(make_function(either)), {"it": "x"}) == (
        "$.it: Input should be a valid integer",
    )


def test_missing_and_unknown_arguments_are_both_reported() -> None:
    assert get_problems(infer_signature(make_function(int)), {"that": 1}) == (
        "$.it: Field required",
        "$.that: Extra inputs are not permitted",
    )


def test_the_message_of_an_authors_validator_is_reported() -> None:
    def even(value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value

    assert get_problems(infer_signature(make_function(Annotated[int, AfterValidator(even)])), {"it": 1}) == (
        "$.it: Value error, must be even",
    )


@pytest.mark.parametrize("data", [{"it": object()}, {"it": "\ud800"}, [1]])
def test_arguments_that_are_not_a_json_object_are_a_problem(data: Any) -> None:
    assert get_problems(infer_signature(make_function(Any)), data)[0].startswith("$: ")


# -- parameters ----------------------------------------------------------------------------------------------


def test_names_that_pydantic_keeps_for_itself_are_ordinary_parameters() -> None:
    def tool(title: str, json: int, model_config: int, _x: int, schema: int, p0: int, validate: int) -> None: ...

    data = {"title": "t", "json": 1, "model_config": 2, "_x": 3, "schema": 4, "p0": 5, "validate": 6}
    signature = infer_signature(tool)
    assert is_valid(signature.input_schema, data)
    assert list(signature.input_schema["properties"]) == list(data)
    assert signature.bind(data) == data


def test_defaults_are_shown_and_left_to_the_function() -> None:
    def tool(a: int = 3, *, unit: Unit = Unit.KELVIN, when: date = date(2026, 1, 2), some: tuple[int, ...] = ()): ...

    signature = infer_signature(tool)
    defaults = {name: subschema.get("default") for name, subschema in signature.input_schema["properties"].items()}
    assert defaults == {"a": 3, "unit": "kelvin", "when": "2026-01-02", "some": []}
    assert "required" not in signature.input_schema
    assert signature.bind({}) == {}


@pytest.mark.parametrize("default", [object(), float("nan")])
def test_a_default_that_json_does_not_have_is_not_shown(default: Any) -> None:
    schema = infer_signature(make_function(Any, default)).input_schema
    assert schema == {"type": "object", "properties": {"it": {}}, "additionalProperties": False}


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


NULLABLE = [
    (int | None, True),
    (Any, True),
    (None, True),
    (Literal["a", None], True),
    (Optional[Node], True),
    (int, False),
    (str | int, False),
    (Unit, False),
    (Literal["a", "b"], False),
    (Node, False),
    (Annotated[Cat | Dog, Field(discriminator="kind")], False),
]


@pytest.mark.parametrize(("annotation", "is_shown"), NULLABLE, ids=lambda item: str(item)[:40])
def test_a_null_default_is_in_the_schema_only_if_null_fits(annotation: Any, is_shown: bool) -> None:
    schema = infer_signature(make_function(annotation, None)).input_schema
    assert ("default" in schema["properties"]["it"]) is is_shown
    assert is_valid(schema, {"it": None}) is is_shown
    assert is_valid(schema, {})


def test_defaults_in_a_pydantic_field_are_filled_in_because_the_function_cannot_see_them() -> None:
    def tool(
        a: int = Field(3, ge=0, description="how many"),
        b: list[int] = Field(default_factory=list),  # noqa: B008
        c: int = Field(alias="other"),
        d: Annotated[int, Field(default_factory=lambda: 7)] = ...,
    ): ...

    tool.__signature__ = inspect.signature(tool).replace(
        parameters=[
            item.replace(default=item.empty, kind=item.KEYWORD_ONLY) if item.name == "d" else item
            for item in inspect.signature(tool).parameters.values()
        ]
    )
    signature = infer_signature(tool)
    assert signature.input_schema["required"] == ["c"]
    assert signature.input_schema["properties"]["a"] == {
        "type": "integer", "default": 3, "minimum": 0, "description": "how many",
    }  # fmt: skip
    assert signature.bind({"c": 1}) == {"a": 3, "b": [], "c": 1, "d": 7}
    assert get_problems(signature, {"c": 1, "a": -1}) == ("$.a: Input should be greater than or equal to 0",)


def test_a_parameter_is_known_by_its_own_name_whatever_alias_its_field_has() -> None:
    signature = infer_signature(make_function(Annotated[int, Field(alias="a", validation_alias="b")]))
    assert list(signature.input_schema["properties"]) == ["it"]
    assert signature.bind({"it": 1}) == {"it": 1}


def test_a_return_type_that_only_a_type_checker_sees_does_no_harm() -> None:
    def tool() -> Missing: ...

    assert infer_signature(tool).output_schema == {}


def test_positional_only_parameters_and_stars_are_called_by_name() -> None:
    def tool(a: int, b: int = 2, /, c: int = 3, *rest: Place, key: int = 4, **others: date) -> Any:
        return a, b, c, rest, key, others

    signature = infer_signature(tool)
    data = {"a": 1, "rest": [{"name": "A"}], "x": "2026-01-02", "others": "2026-01-03"}
    assert is_valid(signature.input_schema, data)
    assert not is_valid(signature.input_schema, {"a": 1, "x": 5})
    assert signature.input_schema["required"] == ["a"]
    assert signature.call(**signature.bind(data)) == (
        1, 2, 3, (Place(name="A"),), 4, {"x": date(2026, 1, 2), "others": date(2026, 1, 3)},
    )  # fmt: skip
    assert signature.call(**signature.bind({"a": 1, "b": 5, "c": 6})) == (1, 5, 6, (), 4, {})
    assert get_problems(signature, {"a": 1, "x": 5})[0].startswith("$.x: ")


def test_an_ordinary_function_is_called_as_it_is() -> None:
    def tool(a: int, *, b: int = 1) -> None: ...

    assert infer_signature(tool).call is tool


def test_without_keyword_arguments_nothing_else_is_allowed_and_with_them_anything_is() -> None:
    def closed(a: int = 0): ...
    def opened(a: int = 0, **others): ...

    assert not is_valid(infer_signature(closed).input_schema, {"b": 1})
    assert get_problems(infer_signature(closed), {"p0": 1}) == ("$.p0: Extra inputs are not permitted",)
    assert infer_signature(opened).input_schema["additionalProperties"] is True
    assert infer_signature(opened).bind({"b": [1], "p0": 2, "self": 3}) == {"b": [1], "p0": 2, "self": 3}


def test_constraints_reach_the_schema() -> None:
    annotation = Annotated[float, annotated_types.Gt(0), Field(le=10, multiple_of=0.5, examples=[1.5])]
    assert infer_signature(make_function(annotation)).input_schema["properties"]["it"] == {
        "type": "number", "exclusiveMinimum": 0, "maximum": 10, "multipleOf": 0.5, "examples": [1.5],
    }  # fmt: skip


# -- what a client must not reach ----------------------------------------------------------------------------


def test_skipped_parameters_the_context_and_filled_in_ones_are_not_in_the_schema() -> None:
    def tool(a: int, db: Opaque, ctx: CallContext, token: str = "", **others: Any): ...

    signature = infer_signature(functools.partial(tool, token="secret"), skip=["db"])
    assert list(signature.input_schema["properties"]) == ["a"]
    assert "secret" not in str(signature.input_schema)
    assert signature.context == "ctx"
    assert get_problems(signature, {"a": 1, "ctx": 1, "db": 2, "token": "mine", "free": 3}) == (
        "$.ctx: not an argument of this tool",
        "$.db: not an argument of this tool",
        "$.token: not an argument of this tool",
    )


def test_skipping_the_keyword_arguments_closes_the_schema() -> None:
    def tool(a: int = 0, **others: Any): ...

    assert infer_signature(tool, skip={"others"}).input_schema["additionalProperties"] is False


# -- refusals ------------------------------------------------------------------------------------------------


def _unresolved(a: int, b: list[Missing]): ...
def _unresolved_attribute(b: date.missing): ...
def _opaque(a: int, b: dict[str, Opaque]): ...
def _callback(b: Callable[[int], int]): ...
def _member(b: Literal[Unit.KELVIN]): ...
def _look_around(b: Annotated[str, Field(pattern="(?<=a)b")]): ...
def _stars(*b: Opaque): ...
def _keywords(**b: Opaque): ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (_unresolved, ["'Missing'", "cannot be resolved"]),
        (_unresolved_attribute, ["'missing'", "cannot be resolved"]),
        (_opaque, ["dict[str, ", "Opaque"]),
        (_callback, ["Callable"]),
        (_member, ["Unit.KELVIN"]),
        (_look_around, ["look-around"]),
        (_stars, ["Opaque"]),
        (_keywords, ["Opaque"]),
    ],
    ids=lambda item: getattr(item, "__name__", ""),
)
def test_a_parameter_that_cannot_be_inferred_is_rejected_with_its_name_and_advice(
    function: Any, words: list[str]
) -> None:
    with pytest.raises(TypeError) as caught:
        infer_signature(function)
    for word in [function.__name__, "parameter 'b'", "input_schema=", *words]:
        assert word in str(caught.value)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="pydantic reads typing.TypedDict from Python 3.12 on")
def test_an_old_typed_dict_is_rejected_with_advice() -> None:
    with pytest.raises(TypeError, match=r"parameter 'it' .*OldOptions.*typing_extensions\.TypedDict.*input_schema="):
        infer_signature(make_function(OldOptions))


def test_a_callable_without_a_signature_is_rejected() -> None:
    with pytest.raises(TypeError, match=r"iter has no signature to read.*input_schema="):
        infer_signature(iter)


def test_a_secret_default_is_not_in_the_schema() -> None:
    assert "hunter2" not in str(infer_signature(make_function(SecretStr, SecretStr("hunter2"))).input_schema)
