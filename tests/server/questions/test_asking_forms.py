"""Forms and links: the user sees the tool's question, and the tool receives a valid answer."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal

import mcp_types as types
import pytest
from pydantic import BaseModel, Field, field_validator
from typing_extensions import TypedDict

from mcp_bridge import Answer, CallContext, ToolRegistry
from mcp_bridge._engine.authoring import tool
from mcp_bridge.testing import connect
from tests.kits.constants import EVERY_ERA, STATELESS
from tests.kits.questions.asking_kit import NAME_SCHEMA, accept, get_code, get_text, serve_client
from tests.kits.questions.simulated_users import SimulatedUser


@dataclass
class Delivery:
    """Where it goes.

    Attributes:
        street: Street and number.
    """

    street: str
    floor: int | None = None
    slot: Literal["noon", "evening"] = "noon"


class Seat(BaseModel):
    row: int = Field(ge=1, title="Row")

    @field_validator("row")
    @classmethod
    def _not_thirteen(cls, row: int) -> int:
        if row == 13:
            raise ValueError("there is no row 13")
        return row


class Pair(TypedDict):
    left: float
    right: bool


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


ENUMS: dict[str, Any] = {
    "plain": {"type": "string", "enum": ["a", "b"], "default": "b"},
    "titled": {"type": "string", "oneOf": [{"const": "x", "title": "An X"}, {"const": "y", "title": "A Y"}]},
    "named": {"type": "string", "enum": ["p", "q"], "enumNames": ["Pea", "Queue"]},
    "several": {"type": "array", "items": {"type": "string", "enum": ["m", "n"]}, "minItems": 1, "maxItems": 2},
    "some": {
        "type": "array",
        "items": {"anyOf": [{"const": "u", "title": "Yew"}, {"const": "v", "title": "Vee"}]},
        "default": ["v"],
    },
}
DEFAULTS: dict[str, Any] = {
    "text": {"type": "string", "title": "Text", "minLength": 1, "maxLength": 9, "default": "some"},
    "mail": {"type": "string", "format": "email", "description": "Where to write", "default": "a@example.com"},
    "whole": {"type": "integer", "minimum": 0, "maximum": 9, "default": 3},
    "number": {"type": "number", "default": 0.5},
    "flag": {"type": "boolean", "default": True},
}


async def ask_in_tool(schema: Any, user: SimulatedUser, mode: str, **options: Any) -> tuple[list[Answer], Any]:
    """Ask for this in a tool; return its answers and the result of the call."""
    registry, answers = ToolRegistry(), []

    @tool(registry=registry)
    async def ask(ctx: CallContext) -> str:
        """Asks."""
        answers.append(await ctx.ask("Please.", schema, **options))
        return answers[-1].action

    async with connect(registry, mode=mode, elicitation_callback=user) as client:
        return answers, await client.call_tool("ask", {})


@EVERY_ERA
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_a_question_without_a_schema_is_a_yes_or_no(mode: str, action: str) -> None:
    user = SimulatedUser(action)
    (answer,), result = await ask_in_tool(None, user, mode)
    assert get_text(result) == answer.action == action
    assert bool(answer) is answer.accepted is (action == "accept")
    (question,) = user.questions
    assert (question.message, question.mode) == ("Please.", "form")
    field = {"type": "boolean", "title": "Confirm", "default": True}
    assert question.requested_schema == {"type": "object", "properties": {"confirm": field}, "required": ["confirm"]}


@EVERY_ERA
async def test_content_of_a_declined_form_does_not_reach_the_tool(mode: str) -> None:
    decline = types.ElicitResult(action="decline", content={"name": "Ada"})
    (answer,), _ = await ask_in_tool(NAME_SCHEMA, SimulatedUser(decline), mode)
    assert (answer.content, answer.data) == ({}, None)


@pytest.mark.parametrize(
    ("schema", "content", "data"),
    [
        (Delivery, {"street": "Elm 1"}, Delivery("Elm 1")),
        (Delivery, {"street": "Elm 1", "floor": 2, "slot": "evening"}, Delivery("Elm 1", 2, "evening")),
        (Seat, {"row": 12}, Seat(row=12)),
        (Pair, {"left": 0.5, "right": False}, {"left": 0.5, "right": False}),
        (str, {"value": "ünï"}, "ünï"),
        (int, {"value": 7}, 7),
        (float, {"value": 2}, 2.0),
        (bool, {"value": False}, False),
        (Size, {"value": "l"}, Size.LARGE),
        (Literal["a", "b"], {"value": "b"}, "b"),
        (list[Size], {"value": ["s", "l"]}, [Size.SMALL, Size.LARGE]),
        (datetime.date, {"value": "2026-07-28"}, datetime.date(2026, 7, 28)),
        (Annotated[int, Field(ge=1, default=4)], {}, 4),
    ],
    ids=repr,
)
async def test_an_answer_to_a_question_with_a_type_is_an_instance_of_it(schema: Any, content: Any, data: Any) -> None:
    (answer,), _ = await ask_in_tool(schema, SimulatedUser(content), STATELESS)
    assert answer.data == data
    assert type(answer.data) is type(data)
    assert answer.content == content


async def test_a_handshake_client_is_asked_for_a_type_too() -> None:
    (answer,), _ = await ask_in_tool(Seat, SimulatedUser({"row": 12}), "legacy")
    assert (answer.data, answer.content) == (Seat(row=12), {"row": 12})


async def test_the_form_of_a_type_has_its_descriptions_choices_and_defaults() -> None:
    user = SimulatedUser({"street": "Elm 1"})
    await ask_in_tool(Delivery, user, STATELESS)
    form = user.questions[0].requested_schema
    assert form["required"] == ["street"]
    assert form["properties"]["street"]["description"] == "Street and number."
    slot = dict(form["properties"]["slot"])
    # The server may choose any title.
    slot.pop("title", None)
    assert slot == {"type": "string", "enum": ["noon", "evening"], "default": "noon"}


@pytest.mark.parametrize("properties", [ENUMS, DEFAULTS], ids=["choices", "defaults"])
async def test_a_json_schema_reaches_the_client_as_it_was_written(properties: Any) -> None:
    user = SimulatedUser({})
    (answer,), _ = await ask_in_tool({"type": "object", "properties": properties}, user, STATELESS)
    assert user.questions[0].requested_schema == {"type": "object", "properties": properties}
    # Empty fields are not added.
    assert answer.content == {}


async def test_answers_to_every_kind_of_choice_are_validated() -> None:
    wrong = {"plain": "c", "titled": "An X", "named": "Pea", "several": [], "some": ["w"]}
    right = {"plain": "a", "titled": "x", "named": "q", "several": ["m", "n"], "some": ["u"]}
    user = SimulatedUser(wrong, right)
    (answer,), _ = await ask_in_tool({"type": "object", "properties": ENUMS}, user, STATELESS)
    assert answer.content == answer.data == right
    for name in wrong:
        assert f"$.{name}" in user.questions[1].message


async def test_fields_left_empty_or_never_asked_for_do_not_reach_the_tool() -> None:
    schema = {"type": "object", "properties": {"age": {"type": "integer"}, "name": {"type": "string"}}}
    (answer,), _ = await ask_in_tool(schema, SimulatedUser({"age": None, "name": "Ada", "admin": True}), STATELESS)
    assert answer.content == answer.data == {"name": "Ada"}


@EVERY_ERA
async def test_an_invalid_answer_is_asked_again_with_its_problems(mode: str) -> None:
    user = SimulatedUser({}, {"row": 13}, {"row": 2})
    (answer,), _ = await ask_in_tool(Seat, user, mode)
    assert answer.data == Seat(row=2)
    first, second, third = (question.message for question in user.questions)
    assert first == "Please."
    assert second.startswith("Please.")
    assert "$.row" in second
    assert "there is no row 13" in third
    # Only the problems of the last answer are shown.
    assert "required" not in third


@EVERY_ERA
async def test_three_invalid_answers_end_the_call(mode: str) -> None:
    user = SimulatedUser({"name": "a"})
    answers, result = await ask_in_tool(NAME_SCHEMA, user, mode)
    assert (answers, len(user.questions)) == ([], 3)
    assert get_code(result) == "invalid_answer"
    assert "$.name" in get_text(result)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"place": {"type": "object"}}},
        {"type": "object", "properties": {"password": {"type": "string"}}},
        {"type": "string"},
        list[str],
    ],
    ids=str,
)
async def test_a_schema_that_forms_do_not_support_is_an_error_before_the_user_is_asked(schema: Any) -> None:
    user = SimulatedUser({})
    answers, result = await ask_in_tool(schema, user, STATELESS)
    assert (answers, user.questions) == ([], [])
    assert get_code(result) == "internal_error"


@EVERY_ERA
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_a_page_is_asked_for_by_its_address(mode: str, action: str) -> None:
    user = SimulatedUser(action)
    (answer,), _ = await ask_in_tool(None, user, mode, url="https://example.com/sign-in?a=1")
    assert (answer.action, answer.content) == (action, {})
    (question,) = user.questions
    assert (question.mode, question.message, question.url) == ("url", "Please.", "https://example.com/sign-in?a=1")


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "file:///etc/passwd", "https://", "https:///path", "example.com", ""]
)
async def test_an_address_that_no_browser_should_open_is_the_authors_error(url: str) -> None:
    user = SimulatedUser("accept")
    answers, result = await ask_in_tool(None, user, STATELESS, url=url)
    assert (answers, user.questions) == ([], [])
    assert get_code(result) == "internal_error"


async def test_only_handshake_clients_get_an_elicitation_id_and_each_request_has_another() -> None:
    ids: list[Any] = []
    for mode in ("legacy", "legacy", STATELESS):
        user = SimulatedUser("accept")
        await ask_in_tool(None, user, mode, url="https://example.com/")
        ids.append(user.questions[0].model_dump(by_alias=True).get("elicitationId"))
    assert ids[0]
    assert ids[1]
    assert ids[0] != ids[1]
    assert ids[2] is None


async def test_clients_of_older_versions_get_forms_in_the_keywords_of_their_version() -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def ask(ctx: CallContext, several: bool = False) -> str:
        """Asks."""
        properties = {key: form for key, form in ENUMS.items() if several or form["type"] != "array"}
        return str((await ctx.ask("Please.", {"type": "object", "properties": properties})).content)

    async with serve_client(registry, version="2025-06-18") as client:
        number = await client.send_request("tools/call", {"name": "ask", "arguments": {}})
        question = await client.receive_request()
        assert question["params"]["requestedSchema"]["properties"] == {
            "plain": {"type": "string", "enum": ["a", "b"]},
            "titled": {"type": "string", "enum": ["x", "y"], "enumNames": ["An X", "A Y"]},
            "named": {"type": "string", "enum": ["p", "q"], "enumNames": ["Pea", "Queue"]},
        }
        await client.respond(question, result=accept(plain="a"))
        assert get_text((await client.receive_response(number))["result"]) == "{'plain': 'a'}"
        rejection = await client.request("tools/call", {"name": "ask", "arguments": {"several": True}})
        assert get_code(rejection["result"]) == "internal_error"
