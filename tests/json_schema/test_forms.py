"""Forms: the schemas for clients of each version, the checks of responses, and the instances built from them."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import typing
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal, NotRequired, Optional

import mcp_types
import pytest
from mcp_types import _v2025_11_25 as v2025
from mcp_types import _v2026_07_28 as v2026
from pydantic import (
    AnyUrl,
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    SecretStr,
    ValidationError,
    WithJsonSchema,
    field_validator,
)
from typing_extensions import TypedDict

from mcp_bridge._json_schema.forms import create_form


class Size(enum.StrEnum):
    SMALL = "small"
    EXTRA_LARGE = "extra-large"


class Colour(enum.Enum):
    RED = "#ff0000"
    DARK_GREEN = "#006400"


class Pace(enum.Enum):
    """How fast to go.

    Attributes:
        SLOW: Slow and scenic
        FAST: As fast as allowed
    """

    SLOW = "slow"
    FAST = "fast"


class Rank(enum.IntEnum):
    FIRST = 1
    SECOND = 2


class Contact(BaseModel):
    """A user."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=2, max_length=40, title="Full name")]
    age: Annotated[int, Field(gt=17, description="In years.")] | None = None
    site: AnyUrl | None = None
    born: date | None
    colours: list[Colour] = []

    @field_validator("name")
    @classmethod
    def _not_a_number(cls, name: str) -> str:
        if name.isdigit():
            raise ValueError("a name is no number")
        return name


@dataclasses.dataclass
class Booking:
    """A booking.

    Attributes:
        to: Where to go.
        pace: How to get there.
    """

    to: str
    when: datetime
    pace: Pace = Pace.SLOW
    seats: Annotated[int, Field(ge=1, le=9)] = 1
    note: str | None = None
    extras: list[Literal["meal", "wifi"]] = dataclasses.field(default_factory=list)


class Options(TypedDict):
    deep: bool
    depth: NotRequired[int]
    limit: float | None


class Node(BaseModel):
    below: Optional[Node] = None  # noqa: UP045 - a string annotation's None


KINDS: Mapping[str, Any] = {
    "text": {"type": "string", "title": "A", "description": "B", "minLength": 1, "maxLength": 9, "default": "x"},
    "mail": {"type": "string", "format": "email", "default": "a@b.example"},
    "page": {"type": "string", "format": "uri"},
    "day": {"type": "string", "format": "date"},
    "moment": {"type": "string", "format": "date-time"},
    "number": {"type": "number", "minimum": 0, "maximum": 1.5, "default": 0.5, "title": "A", "description": "B"},
    "whole": {"type": "integer", "minimum": 0, "maximum": 10, "default": 5},
    "agreed": {"type": "boolean", "default": True, "title": "A", "description": "B"},
    "plain": {"type": "string", "enum": ["a", "b"], "default": "a", "title": "A", "description": "B"},
    "legacy": {"type": "string", "enum": ["a", "b"], "enumNames": ["Aa", "Bb"], "default": "b"},
    "titled": {"type": "string", "oneOf": [{"const": "a", "title": "Aa"}, {"const": "b", "title": "Bb"}]},
    "several": {
        "type": "array", "items": {"type": "string", "enum": ["a", "b"]},
        "minItems": 1, "maxItems": 2, "default": ["a"], "title": "A", "description": "B",
    },
    "several_titled": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "Aa"}]}, "default": []},
}  # fmt: skip
"""Every kind of property that the specification has, with all its keywords."""


def make_form_schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def create_single_property(form_schema: Any) -> dict[str, Any]:
    """Create a form for a single value, and return its only property."""
    (subschema,) = create_form(form_schema).schema["properties"].values()
    return subschema


def matches_a_property_type(value: Mapping[str, Any], version: Any) -> bool:
    """Return whether a kind of property in the specification has all of these keywords, with values of these types."""
    for model in typing.get_args(version.PrimitiveSchemaDefinition):
        try:
            instance = model.model_validate(value, strict=True)
        except ValidationError:
            continue
        if instance.model_dump(by_alias=True, exclude_unset=True) == value:
            return True
    return False


# -- what clients get ----------------------------------------------------------------------------------------


def test_every_type_of_property_is_sent_unchanged() -> None:
    form_schema = {**make_form_schema(**KINDS), "required": list(KINDS)}
    assert create_form(form_schema).schema == form_schema


def test_a_schema_keeps_its_title_and_a_type_has_none() -> None:
    assert create_form({**make_form_schema(it={"type": "string"}), "title": "Order"}).schema["title"] == "Order"
    assert "title" not in create_form(Booking).schema


SENT: list[Any] = [
    None, float, Colour, Literal["a", "b"], tuple[Pace, ...], Annotated[int, Field(ge=1, lt=4)],
    Annotated[float, Field(gt=0, multiple_of=0.5)], Contact, Booking, Options, make_form_schema(**KINDS),
    {"$schema": "https://json-schema.org/draft/2020-12/schema", "additionalProperties": False,
     **make_form_schema(it={"type": "string", "format": "phone", "examples": [1], "x-order": 1, "pattern": "^[0-9]$"})},
]  # fmt: skip


@pytest.mark.parametrize("form_schema", SENT, ids=repr)
def test_a_form_has_only_keywords_of_the_specification(form_schema: Any) -> None:
    schema = create_form(form_schema).schema
    assert mcp_types.ElicitRequestFormParams(message="?", requested_schema=schema).requested_schema == schema
    for version in (v2025, v2026):
        params = version.ElicitRequestFormParams(message="?", requestedSchema=schema)
        assert params.requested_schema.model_dump(by_alias=True, exclude_unset=True) == schema
        for subschema in schema["properties"].values():
            assert matches_a_property_type(subschema, version), subschema
    assert json.loads(json.dumps(schema)) == schema


def test_nothing_asked_is_a_form_with_nothing_to_fill_in() -> None:
    form = create_form(None)
    assert form.schema == {"type": "object", "properties": {}}
    assert form.list_problems(None) == form.list_problems({}) == []
    assert form.read_answer(None) == {}


TYPES = [
    (str, {"type": "string"}),
    (datetime, {"type": "string", "format": "date-time"}),
    (Literal["b", "a"], {"type": "string", "enum": ["b", "a"]}),
    (Literal["a", None], {"type": "string", "enum": ["a"]}),
    (list[Literal["a", "b"]], {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}),
    (Annotated[int, Field(gt=0, lt=10)], {"type": "integer", "minimum": 1, "maximum": 9}),
    (Annotated[int, Field(gt=0, ge=5)], {"type": "integer", "minimum": 5}),
    (Annotated[float, Field(gt=0)], {"type": "number"}),
    (int | float, {"type": "number"}), (float | int | None, {"type": "number"}),
    (Annotated[str, Field(title="A", description="B", default="c")], {
        "type": "string", "title": "A", "description": "B", "default": "c",
    }),
    (RootModel[str], {"type": "string"}),
]  # fmt: skip


@pytest.mark.parametrize(("form_schema", "property_schema"), TYPES, ids=[repr(form_schema) for form_schema, _ in TYPES])
def test_a_single_value_is_asked_for_as_the_property_value(form_schema: Any, property_schema: dict[str, Any]) -> None:
    assert create_form(form_schema).schema["properties"] == {"value": property_schema}


def test_an_enums_values_are_the_choices() -> None:
    assert create_single_property(Size) == {"type": "string", "enum": ["small", "extra-large"]}


def test_members_with_more_informative_names_than_values_are_titles() -> None:
    choices = [{"const": "#ff0000", "title": "Red"}, {"const": "#006400", "title": "Dark green"}]
    assert create_single_property(Colour) == {"type": "string", "oneOf": choices}
    assert create_single_property(list[Colour]) == {"type": "array", "items": {"anyOf": choices}}


def test_an_enums_docstring_has_titles_and_a_description() -> None:
    assert create_single_property(Pace) == {
        "type": "string",
        "description": "How fast to go.",
        "oneOf": [{"const": "slow", "title": "Slow and scenic"}, {"const": "fast", "title": "As fast as allowed"}],
    }


def test_a_class_names_its_fields_with_descriptions_bounds_and_defaults() -> None:
    schema = create_form(Booking).schema
    assert schema["required"] == ["to", "when"]
    assert schema["properties"]["to"] == {"type": "string", "description": "Where to go."}
    assert schema["properties"]["pace"]["description"] == "How to get there."
    assert schema["properties"]["pace"]["default"] == "slow"
    assert schema["properties"]["seats"] == {"type": "integer", "minimum": 1, "maximum": 9, "default": 1}
    assert schema["properties"]["note"] == {"type": "string"}


@pytest.mark.parametrize("form_schema", [Contact, Contact.model_json_schema()], ids=["type", "schema"])
def test_a_property_that_may_be_null_may_be_left_out(form_schema: Any) -> None:
    schema = create_form(form_schema).schema
    assert schema["required"] == ["name"]
    assert "null" not in json.dumps(schema)


def test_patterns_are_sent_only_to_the_version_that_has_them_and_always_checked() -> None:
    form = create_form(make_form_schema(code={"type": "string", "pattern": "^[A-Z]+$", "title": "Code"}))
    assert form.schema == form.to_version("2026-07-28") == form.to_version("")
    assert form.schema["properties"]["code"] == {"type": "string", "title": "Code"}
    property_schema = {"type": "string", "title": "Code", "pattern": "^[A-Z]+$"}
    assert form.to_version("2025-11-25")["properties"]["code"] == property_schema
    assert form.list_problems({"code": "AB"}) == []
    assert form.list_problems({"code": "ab"}) == ['$.code: "ab" does not match "^[A-Z]+$"']


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18"])
def test_older_clients_get_titles_as_names_of_an_enum_and_no_defaults_but_of_booleans(version: str) -> None:
    kinds = {name: subschema for name, subschema in KINDS.items() if subschema["type"] != "array"}
    form = create_form({**make_form_schema(**kinds), "required": ["titled"]})
    older = form.to_version(version)
    assert older["required"] == ["titled"]
    assert older["properties"]["titled"] == {"type": "string", "enum": ["a", "b"], "enumNames": ["Aa", "Bb"]}
    assert older["properties"]["legacy"] == {"type": "string", "enum": ["a", "b"], "enumNames": ["Aa", "Bb"]}
    assert [name for name, subschema in older["properties"].items() if "default" in subschema] == ["agreed"]
    assert form.schema["properties"] == kinds


def test_older_clients_cannot_be_asked_for_several_choices() -> None:
    with pytest.raises(ValueError, match=r"'several' cannot be asked of this client: before 2025-11-25"):
        create_form(make_form_schema(several=KINDS["several"])).to_version("2025-06-18")


def test_the_schema_of_a_form_is_a_copy() -> None:
    form_schema = make_form_schema(it={"type": "string", "enum": ["a"]})
    form = create_form(form_schema)
    form_schema["properties"]["it"]["enum"].append("b")
    assert form.schema["properties"]["it"]["enum"] == ["a"]


def test_a_types_form_is_made_once() -> None:
    assert create_form(Contact) is create_form(Contact)


# -- what no form can have -----------------------------------------------------------------------------------

FLAT = "A form is flat: text, numbers, booleans and choices"
NESTED = {"type": "object", "properties": {}}
REJECTED: list[tuple[Any, str]] = [
    (list[str], "'value' cannot be in a form: it is a list without choices. Give them: list[Literal"),
    (Rank, "'value' cannot be in a form: its choices are numbers"),
    (int | str, "'value' cannot be in a form: it has anyOf"),
    (Any, "'value' cannot be in a form: it has no type"),
    (type(None), "'value' cannot be in a form: its type is 'null'"),
    (Node, f"'below' cannot be in a form: its type is 'object'. {FLAT}"),
    (dict[str, int], "dict[str, int] cannot be asked for in a form: its names are not known"),
    (5, "5 cannot be asked for in a form: Unable to generate pydantic-core schema"),
    ("Contact", "'Contact' cannot be asked for in a form: it is text. Give the type itself"),
    ({"type": "string"}, "This schema cannot be a form"),
    ({"type": "object", "properties": []}, "This schema cannot be a form"),
    (make_form_schema(it=object()), "This schema cannot be a form: it is not JSON"),
    (make_form_schema(it=NESTED), f"'it' cannot be in a form: its type is 'object'. {FLAT}"),
    (make_form_schema(it=True), "'it' cannot be in a form: it may be anything"),
    (make_form_schema(it={}), "'it' cannot be in a form: it has no type"),
    (make_form_schema(it={"type": "string", "allOf": [{"minLength": 1}]}), "'it' cannot be in a form"),
    (make_form_schema(it={"type": "text"}), "#/properties/it/type: "),
    (
        make_form_schema(it={"type": "string", "pattern": "(?=a)"}),
        "#/properties/it/pattern: the pattern '(?=a)' cannot be used",
    ),
    (make_form_schema(it={"$ref": "#/$defs/it"}), "#/properties/it/$ref: Pointer '/$defs/it' does not exist"),
    (
        {**make_form_schema(it={"$ref": "#/$defs/it"}), "$defs": {"it": {"$ref": "#/$defs/it"}}},
        "a reference that leads nowhere",
    ),
    (
        make_form_schema(it={"$ref": "#/properties/at", "title": "T"}, at={"type": "string"}),
        "a reference that leads nowhere",
    ),
    ({**make_form_schema(), "required": ["it"]}, "'it' is required in this form, but is not among its properties"),
    (make_form_schema(it={"type": "string", "default": 1}), "'it' cannot be in a form: its default does not fit"),
    (make_form_schema(it={"type": "string", "enum": ["a"], "default": "b"}), "'it' cannot be in a form: its default"),
    (make_form_schema(it={"type": "string", "enum": []}), "'it' cannot be in a form: its choices are not all text"),
    (
        make_form_schema(it={"type": "string", "enum": ["a", 1]}),
        "'it' cannot be in a form: its choices are not all text",
    ),
    (make_form_schema(it={"enum": ["a", "a"]}), "'it' cannot be in a form: its choices are ambiguous"),
    (
        make_form_schema(it={"enum": ["a"], "enumNames": ["A", "B"]}),
        "'it' cannot be in a form: its choices are ambiguous",
    ),
    (
        make_form_schema(it={"oneOf": [{"const": 1, "title": "A"}]}),
        "'it' cannot be in a form: its choices are not all text",
    ),
    (
        make_form_schema(it={"type": "array", "items": {"enum": ["a"]}, "minItems": 2}),
        "minItems is more than its 1 choices",
    ),
    (make_form_schema(it={"type": "integer", "minimum": 2, "maximum": 1}), "minimum is more than maximum"),
    (Annotated[int, Field(gt=1, lt=2)], "minimum is more than maximum"),
    (make_form_schema(it={"type": "number", "maximum": math.inf}), "#/properties/it/maximum: "),
]


@pytest.mark.parametrize(
    ("form_schema", "message"),
    REJECTED,
    ids=[f"{number}-{message:.60}" for number, (_, message) in enumerate(REJECTED)],
)
def test_a_property_that_no_form_can_have_is_rejected_with_its_name_and_advice(form_schema: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        create_form(form_schema)
    assert message in str(caught.value)


class Login(BaseModel):
    user: str
    key: SecretStr


TEXT, INTEGER = {"type": "string"}, {"type": "integer"}
SECRETS: list[Any] = [
    Login,
    SecretStr,
    make_form_schema(it={"type": "string", "format": "password"}),
    make_form_schema(it={"type": "string", "writeOnly": True}),
    make_form_schema(it={"type": "string", "title": "Your API key"}),
    *(make_form_schema(**{name: TEXT}) for name in ("newPassword2", "API-Key", "CLIENT_SECRET")),
    make_form_schema(card_number=INTEGER),
]


@pytest.mark.parametrize("form_schema", SECRETS, ids=lambda form_schema: f"{form_schema!r:.70}")
def test_forms_do_not_ask_for_secrets(form_schema: Any) -> None:
    with pytest.raises(ValueError, match=r"looks like a secret, which forms must not ask for\. Ask with url= instead"):
        create_form(form_schema)


def test_a_property_about_secrets_may_be_requested() -> None:
    form_schema = make_form_schema(
        token_count=INTEGER, max_tokens=INTEGER, password_hint=TEXT, keyword=TEXT, user=TEXT, confirm=TEXT,
        password={"type": "boolean"}, token={"type": "string", "enum": ["hat", "car"]},
    )  # fmt: skip
    assert list(create_form(form_schema).schema["properties"]) == list(form_schema["properties"])


# -- answers -------------------------------------------------------------------------------------------------

ANSWERS: list[tuple[Any, Any, list[str]]] = [
    (int, {"value": 3.0}, []),
    (int, {"value": "3"}, ["$.value: expected type integer, got string"]),
    (int, {"value": True}, ["$.value: expected type integer, got boolean"]),
    (int, None, ["$.value: required field missing"]),
    (int, [3], ["$: expected type object, got array"]),
    (int | None, {"value": None}, []),
    (bool, {"value": 1}, ["$.value: expected type boolean, got integer"]),
    (Literal[True], {"value": False}, ["$.value: true was expected"]),
    (Colour, {"value": "Red"}, ["$.value: value \"Red\" not in enum [\"#ff0000\", \"#006400\"]"]),
    (list[Colour], {"value": ["#ff0000", "red"]}, ["$.value[1]: value \"red\" not in enum [\"#ff0000\", \"#006400\"]"]),
    (set[Size], {"value": ["small", "small"]}, ['$.value: ["small","small"] has non-unique elements']),
    (Annotated[float, Field(gt=0)], {"value": 0}, ["$.value: 0 is less than or equal to the minimum of 0"]),
    (Annotated[int, Field(gt=0)], {"value": 0}, ["$.value: value 0 < minimum 1"]),
    (date, {"value": "2026-02-30"}, ['$.value: "2026-02-30" is not a "date"']),
    (date, {"value": "2026-W01-1"}, ['$.value: "2026-W01-1" is not a "date"']),
    (datetime, {"value": "2026-02-03T04:05"}, []),
    (datetime, {"value": "2026-02-03"}, ['$.value: "2026-02-03" is not a "date-time"']),
    (AnyUrl, {"value": "mailto:a@b.example"}, []),
    (AnyUrl, {"value": "b.example"}, ['$.value: "b.example" is not a "uri"']),
    (make_form_schema(it=KINDS["page"]), {"it": "https://[::1"}, ['$.it: "https://[::1" is not a "uri"']),
    (make_form_schema(it=KINDS["page"]), {"it": "https://b/a b"}, ['$.it: "https://b/a b" is not a "uri"']),
    (make_form_schema(it=KINDS["mail"]), {"it": "a.b.example"}, ['$.it: "a.b.example" is not a "email"']),
    (make_form_schema(it=KINDS["mail"]), {"it": "a@b.example"}, []),
    (make_form_schema(it=KINDS["mail"]), {"it": "ü@b.example"}, ['$.it: "ü@b.example" is not a "email"']),
    (make_form_schema(it=KINDS["mail"]), {"it": "A <a@b.example>"}, ['$.it: "A <a@b.example>" is not a "email"']),
    (make_form_schema(it=KINDS["page"]), {"it": "https://b/ü"}, ['$.it: "https://b/ü" is not a "uri"']),
    (make_form_schema(it=KINDS["moment"]), {"it": "2026-02-03 04:05:06"}, []),
    (make_form_schema(it=KINDS["moment"]), {"it": "20260203T040506"}, ['$.it: "20260203T040506" is not a "date-time"']),
    (make_form_schema(it=KINDS["titled"]), {"it": "Aa"}, ["$.it: value \"Aa\" not in enum [\"a\", \"b\"]"]),
    (make_form_schema(it=KINDS["legacy"]), {"it": "a"}, []),
    (Contact, {"name": "Al", "age": 17}, ["$.age: value 17 < minimum 18"]),
    (Contact, {"name": "Al", "unknown": "text", "age": None}, []),
    (Contact, {"name": "42"}, ["$.name: Value error, a name is no number"]),
    (make_form_schema(text=KINDS["text"]), {"text": ""}, ["$.text: string length 0 < minLength 1"]),
]  # fmt: skip


@pytest.mark.parametrize(("form_schema", "content", "problems"), ANSWERS, ids=[f"{a!r:.40}-{c}" for a, c, _ in ANSWERS])
def test_a_response_is_checked_by_the_whole_form(form_schema: Any, content: Any, problems: list[str]) -> None:
    assert create_form(form_schema).list_problems(content) == problems


def test_formats_are_not_left_to_the_type() -> None:
    mail = Annotated[str, WithJsonSchema({"type": "string", "format": "email"})]
    assert create_form(mail).list_problems({"value": "no address"}) == ['$.value: "no address" is not a "email"']


READ: list[tuple[Any, Any, Any]] = [
    (int, {"value": 3.0}, 3),
    (date, {"value": "2026-02-03"}, date(2026, 2, 3)),
    (datetime, {"value": "2026-02-03T04:05:06Z"}, datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)),
    (Colour, {"value": "#006400"}, Colour.DARK_GREEN),
    (list[Pace], {"value": ["fast"]}, [Pace.FAST]),
    (set[Size], {"value": ["small"]}, {Size.SMALL}),
    (int | None, None, None),
    (Annotated[int, Field(default=7)], {}, 7),
    (Contact, {"name": "Al", "colours": ["#ff0000"]}, Contact(name="Al", born=None, colours=[Colour.RED])),
    (Options, {"deep": True}, {"deep": True, "limit": None}),
    (
        Booking,
        {"to": "Rome", "when": "2026-02-03T04:05:06", "extras": ["wifi"], "note": None},
        Booking("Rome", datetime(2026, 2, 3, 4, 5, 6), extras=["wifi"]),
    ),
    (make_form_schema(it=TEXT, at=TEXT), {"it": "a", "at": None, "unknown": "text"}, {"it": "a"}),
]  # fmt: skip


@pytest.mark.parametrize(("form_schema", "content", "instance"), READ, ids=[f"{a!r:.40}-{c}" for a, c, _ in READ])
def test_a_response_becomes_an_instance_of_the_requested_type(form_schema: Any, content: Any, instance: Any) -> None:
    form = create_form(form_schema)
    assert form.list_problems(content) == []
    assert form.read_answer(content) == instance
    assert type(form.read_answer(content)) is type(instance)


def test_unknown_properties_and_nulls_of_a_response_are_left_out() -> None:
    form = create_form({**make_form_schema(it=TEXT, at=TEXT), "required": ["at"]})
    assert form.select_content({"it": None, "at": "b", "unknown": "text"}) == {"at": "b"}
    assert form.list_problems({"at": None}) == ["$.at: expected type string, got null"]


def test_an_answer_that_was_not_checked_does_not_become_an_instance() -> None:
    with pytest.raises(ValueError):
        create_form(Contact).read_answer({"name": "A"})


def test_text_that_is_not_unicode_is_a_problem_and_no_crash() -> None:
    (line,) = create_form(str).list_problems({"value": "\ud800"})
    assert line.startswith("$: ")
