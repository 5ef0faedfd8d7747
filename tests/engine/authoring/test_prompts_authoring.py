"""@prompt: a function becomes a prompt; its parameters are the arguments, which arrive as text."""

import enum
from datetime import date
from typing import Annotated, Any, Literal

import pydantic
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PromptReference

from mcp_bridge import CallContext, ToolRegistry
from mcp_bridge._contracts.content import Image, Message, Text
from mcp_bridge._contracts.errors import InvalidArguments
from mcp_bridge._contracts.prompt import PromptArgument, PromptEntry
from mcp_bridge._engine.authoring import prompt
from mcp_bridge.errors import DuplicateTool
from mcp_bridge.testing import connect
from tests.kits.wire.speaking import ERAS, dump_json


class Tone(enum.Enum):
    KIND = "kind"
    DRY = "dry"


class Place(pydantic.BaseModel):
    """Somewhere."""

    city: str


class Opaque:
    """A type without a conversion from text."""


def make_entry(function: Any) -> PromptEntry:
    entry = function.prompt_entry
    assert isinstance(entry, PromptEntry)
    return entry


def get(function: Any, **arguments: Any) -> Any:
    return make_entry(function).handler(arguments)


def get_problems(function: Any, arguments: Any) -> tuple[str, ...]:
    with pytest.raises(InvalidArguments) as caught:
        make_entry(function).handler(arguments)
    return caught.value.details


# The forms


def test_a_bare_decorator_reads_signature_and_docstring() -> None:
    @prompt
    def review(code: str, tone: Tone = Tone.KIND) -> str:
        """Asks for a review.

        At length.

        Args:
            code: What to look at.
            tone: How to say it.
        """
        return f"Review {code}, {tone.value}"

    entry = make_entry(review)
    assert (entry.name, entry.description, entry.title) == ("review", "Asks for a review.\n\nAt length.", None)
    assert entry.arguments == (
        PromptArgument("code", "What to look at.", required=True),
        PromptArgument("tone", "How to say it.", required=False),
    )
    assert entry.handler({"code": "x", "tone": "dry"}) == "Review x, dry"
    assert review("x") == "Review x, kind"


def test_every_form_of_the_decorator_makes_a_prompt() -> None:
    @prompt
    def bare() -> str:
        """Greets."""
        return "ok"

    @prompt()
    def called() -> str:
        """Greets."""
        return "ok"

    @prompt("renamed")
    def with_a_name() -> str:
        """Greets."""
        return "ok"

    @prompt("described", "Mine.")
    def with_a_description() -> str:
        """Not this."""
        return "ok"

    entries = [make_entry(function) for function in (bare, called, with_a_name, with_a_description)]
    assert [(entry.name, entry.description) for entry in entries] == [
        ("bare", "Greets."),
        ("called", "Greets."),
        ("renamed", "Greets."),
        ("described", "Mine."),
    ]
    assert [entry.handler({}) for entry in entries] == ["ok"] * 4
    assert [entry.handler(None) for entry in entries] == ["ok"] * 4


def test_title_icons_and_meta_are_copied() -> None:
    icons, meta = [{"src": "https://a/i.png"}], {"a/b": 1}

    @prompt(title="A title", icons=icons, meta=meta)
    def shown() -> str:
        return "ok"

    icons.clear()
    meta.clear()
    entry = make_entry(shown)
    assert (entry.title, entry.icons, entry.meta) == ("A title", [{"src": "https://a/i.png"}], {"a/b": 1})


# Arguments


def test_descriptions_in_annotations_win_over_the_docstrings() -> None:
    @prompt
    def about(
        topic: Annotated[str, pydantic.Field(description="The topic.")],
        place: Annotated[Place, "Where."],
        words: Annotated[int, pydantic.Field(ge=1)] = 5,
        tone: Tone = Tone.KIND,
    ) -> str:
        """About something.

        Args:
            topic: Not this.
            words: How many.
        """
        return f"{topic} {words} {place} {tone}"

    assert [(argument.name, argument.description) for argument in make_entry(about).arguments] == [
        ("topic", "The topic."),
        ("place", "Where."),
        ("words", "How many."),
        ("tone", ""),
    ]


def test_an_argument_is_required_unless_it_has_a_default() -> None:
    @prompt
    def about(
        first: str,
        second: str | None,
        third: str | None = None,
        *,
        fourth: str = "",
        fifth: Annotated[str, pydantic.Field()],
        sixth: list[str] = pydantic.Field(default_factory=list),  # noqa: B008
    ) -> Any:
        return third, fourth, sixth

    arguments = make_entry(about).arguments
    assert [argument.name for argument in arguments if argument.required] == ["first", "second", "fifth"]
    assert get(about, first="a", second="b", fifth="c") == (None, "", [])


def test_text_becomes_what_the_parameters_are_annotated_with() -> None:
    @prompt
    def about(
        number: int,
        share: float,
        deep: bool,
        day: date,
        tone: Tone,
        kind: Literal["a", 1],
        words: list[str],
        counts: dict[str, int],
        place: Place,
        anything: Any,
        untyped,  # type: ignore[no-untyped-def]
    ) -> Any:
        return number, share, deep, day, tone, kind, words, counts, place, anything, untyped

    arguments = {
        "number": "5",
        "share": "0.5",
        "deep": "true",
        "day": "2026-01-02",
        "tone": "dry",
        "kind": "1",
        "words": '["a", "5"]',
        "counts": '{"a": 5}',
        "place": '{"city": "Bonn"}',
        "anything": "5",
        "untyped": "[5]",
    }
    assert get(about, **arguments) == (
        5,
        0.5,
        True,
        date(2026, 1, 2),
        Tone.DRY,
        1,
        ["a", "5"],
        {"a": 5},
        Place(city="Bonn"),
        "5",
        "[5]",
    )


def test_missing_unknown_and_wrong_arguments_have_a_line_each() -> None:
    @prompt
    def about(topic: str, words: int, places: list[Place]) -> str:
        raise AssertionError("reached")

    assert get_problems(about, {}) == ("$.topic: Field required", "$.words: Field required", "$.places: Field required")
    assert get_problems(about, {"topic": "a", "words": "many", "places": '[{"city": 5}]', "more": "5"}) == (
        "$.words: Input should be a valid integer",
        "$.places[0].city: Input should be a valid string",
        "$.more: Extra inputs are not permitted",
    )


def test_arguments_that_are_not_a_mapping_are_rejected() -> None:
    @prompt
    def about(topic: str) -> str:
        raise AssertionError("reached")

    assert get_problems(about, ["a"]) == ("$: Input should be an object",)


def test_variable_keywords_are_an_error_at_decoration() -> None:
    with pytest.raises(TypeError, match="about: a prompt declares all its arguments"):

        @prompt
        def about(topic: str, **remainder: int) -> None: ...


def test_the_context_is_no_argument() -> None:
    @prompt
    def about(topic: str, ctx: CallContext) -> str:
        return f"{topic} {ctx.request_id}"

    assert [argument.name for argument in make_entry(about).arguments] == ["topic"]
    assert make_entry(about).handler({"topic": "a"}, ctx=CallContext(request_id="7")) == "a 7"
    assert get_problems(about, {"topic": "a", "ctx": "b"}) == ("$.ctx: Extra inputs are not permitted",)


async def test_an_async_function_is_awaited() -> None:
    @prompt
    async def about(words: int) -> str:
        return "word " * words

    assert await about(1) == "word "
    assert await get(about, words="2") == "word word "


def test_content_blocks_are_returned_unchanged() -> None:
    texts = [Message("Hello.", "assistant"), Text("a"), Image(b"", "image/png"), "b"]

    @prompt
    def about() -> list[Any]:
        return texts

    assert get(about) is texts


def test_a_function_with_an_unsupported_signature_cannot_be_decorated() -> None:
    with pytest.raises(TypeError, match="'slots' has a type that JSON Schema cannot describe"):

        @prompt
        def about(slots: Opaque) -> None: ...


@ERAS
async def test_clients_get_the_prompt_with_arguments_of_its_types(mode: str) -> None:
    registry = ToolRegistry()

    @prompt(registry=registry)
    async def compare(ctx: CallContext, days: list[date], tone: Tone = Tone.KIND) -> list[Any]:
        """Compares days."""
        return [f"Compare {days[0]:%A} with {days[1]:%A}, {tone.value}", Message(ctx.protocol_version, "assistant")]

    async with connect(registry, mode=mode) as client:
        [listing] = (await client.list_prompts()).prompts
        assert [(item.name, item.required) for item in listing.arguments or ()] == [("days", True), ("tone", False)]
        got = await client.get_prompt("compare", {"days": '["2026-01-02", "2026-01-03"]', "tone": "dry"})
        offers = await client.complete(PromptReference(name="compare"), {"name": "tone", "value": "k"})
        for arguments, line in [({}, "$.days: "), ({"days": "5"}, "$.days: "), ({"days": "[]", "more": ""}, "$.more")]:
            with pytest.raises(MCPError) as rejection:
                await client.get_prompt("compare", arguments)
            assert rejection.value.error.code == INVALID_PARAMS
            assert line in rejection.value.error.message
        version = client.protocol_version
    texts = [(message.role, dump_json(message.content)["text"]) for message in got.messages]
    assert texts == [("user", "Compare Friday with Saturday, dry"), ("assistant", version)]
    assert offers.completion.values == ["kind"]


# Completions


def test_types_with_few_values_complete_them_by_default() -> None:
    def topics(text: str, known_names: dict[str, str]) -> list[str]:
        return ["sea"]

    @prompt(completions={"topic": topics, "deep": ["true"]})
    def about(topic: str, tone: Tone | None = None, kind: Literal["a", 1] = "a", deep: bool = True) -> str:
        return f"{topic} {tone} {kind} {deep}"

    assert make_entry(about).completions == {
        "tone": ("kind", "dry"),
        "kind": ("a", "1"),
        "deep": ["true"],
        "topic": topics,
    }


def test_completions_for_an_unknown_argument_are_an_error() -> None:
    with pytest.raises(TypeError, match="about: completions are given for 'topics', which is not an argument"):

        @prompt(completions={"topics": ["sea"]})
        def about(topic: str) -> None: ...


# The registry


def test_the_entry_is_registered_and_a_second_one_of_its_name_is_an_error() -> None:
    registry = ToolRegistry()

    @prompt("p", registry=registry)
    def one() -> str:
        return "ok"

    assert list(registry.prompts) == [make_entry(one)]
    with pytest.raises(DuplicateTool):
        prompt("p", registry=registry)(lambda: "other")


def test_a_function_that_is_defined_elsewhere_becomes_a_prompt_with_a_name() -> None:
    def ask(topic: str) -> str:
        return topic

    registry = ToolRegistry()
    assert make_entry(prompt(ask, name="about")).name == "about"
    assert make_entry(registry.prompt(ask, name="of", description="Asks.")).description == "Asks."
    assert registry.prompts.get("of") is not None
    with pytest.raises(TypeError, match="a prompt has one name, and was given two, 'a' and 'b'"):
        prompt("a", name="b")(ask)


async def test_messages_may_be_dicts_whose_content_is_a_block() -> None:
    @prompt
    def talk() -> list[Any]:
        return [
            {"role": "user", "content": {"type": "text", "text": "Hello"}},
            {"role": "assistant", "content": {"type": "image", "data": "aGk=", "mimeType": "image/png"}},
            Message({"type": "text", "text": "Bye"}, "user"),  # type: ignore[arg-type]
            {"role": "user", "content": {"type": "unknown", "text": "data"}},
        ]

    registry = ToolRegistry()
    registry.prompts.add(make_entry(talk))
    async with connect(registry) as client:
        result = dump_json(await client.get_prompt("talk"))
    assert [(message["role"], message["content"]) for message in result["messages"]] == [
        ("user", {"type": "text", "text": "Hello"}),
        ("assistant", {"type": "image", "data": "aGk=", "mimeType": "image/png"}),
        ("user", {"type": "text", "text": "Bye"}),
        ("user", {"type": "text", "text": '{"type":"unknown","text":"data"}'}),
    ]
