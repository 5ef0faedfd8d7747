"""@resource: a function becomes a resource or a template. The values of the variables are text."""

import enum
import inspect
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

import pydantic
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ResourceTemplateReference

from mcp_bridge import CallContext, ToolRegistry
from mcp_bridge._contracts.errors import InvalidArguments
from mcp_bridge._contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge._engine.authoring import prompt, resource, tool
from mcp_bridge._json_schema.callables import find_context_parameter
from mcp_bridge.errors import DuplicateTool
from mcp_bridge.testing import connect


class Unit(enum.Enum):
    C = "celsius"
    F = "fahrenheit"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Place(pydantic.BaseModel):
    city: str
    floor: int = 0


def make_entry(function: Any) -> ResourceEntry:
    entry = function.resource_entry
    assert isinstance(entry, ResourceEntry)
    return entry


def make_template(function: Any) -> ResourceTemplate:
    entry = function.resource_entry
    assert isinstance(entry, ResourceTemplate)
    return entry


def read(function: Any, **variables: Any) -> Any:
    return make_template(function).handler(variables)


def get_problems(function: Any, **variables: Any) -> tuple[str, ...]:
    with pytest.raises(InvalidArguments) as caught:
        read(function, **variables)
    return caught.value.details


# One URI


def test_a_function_becomes_a_resource_with_its_name_and_docstring() -> None:
    @resource("notes://today")
    def today() -> str:
        """What is planned.

        Returns:
            The plan.
        """
        return "nothing"

    entry = make_entry(today)
    assert (entry.uri, entry.name, entry.description) == ("notes://today", "today", "What is planned.")
    assert entry.handler({"uri": "notes://today"}) == "nothing"
    assert today() == "nothing"


def test_name_description_title_and_icons_can_be_passed() -> None:
    annotations, icons, meta = {"audience": ["user"]}, [{"src": "https://a/i.png"}], {"a/b": 1}
    marking = resource(
        "notes://today",
        name="plan",
        description="The plan.",
        mime_type="text/markdown",
        title="Plan",
        size=7,
        annotations=annotations,
        icons=icons,
        meta=meta,
    )

    def today() -> str:
        """Not this."""
        return "nothing"

    entry = make_entry(marking(today))
    annotations.clear()
    icons.clear()
    meta.clear()
    assert (entry.name, entry.description, entry.mime_type) == ("plan", "The plan.", "text/markdown")
    assert (entry.title, entry.size) == ("Plan", 7)
    assert (entry.annotations, entry.icons, entry.meta) == (
        {"audience": ["user"]},
        [{"src": "https://a/i.png"}],
        {"a/b": 1},
    )


def test_a_resource_may_have_parameters_that_have_defaults() -> None:
    @resource("notes://today")
    def today(limit: int = 3, *, deep: Annotated[bool, pydantic.Field()] = True) -> str:
        return f"{limit} {deep}"

    assert make_entry(today).handler({"uri": "notes://today"}) == "3 True"
    assert today(1, deep=False) == "1 False"


def test_a_default_of_pydantic_is_filled_in_for_a_missing_argument() -> None:
    @resource("notes://today")
    def today(words: list[str] = pydantic.Field(default_factory=list)) -> Any:  # noqa: B008
        return words

    assert make_entry(today).handler({"uri": "notes://today"}) == []


# The context, and async functions


def plainly() -> str:
    return "none"


def with_context(ctx: CallContext) -> str:
    return ctx.request_id


def by_another_name(*, running: "CallContext | None" = None) -> str:
    return running.request_id if running else ""


async def awaited() -> str:
    return "none"


async def awaited_with_context(ctx: CallContext) -> str:
    return ctx.request_id


class Caller:
    """Awaited when called."""

    async def __call__(self, ctx: CallContext) -> str:
        return ctx.request_id


FUNCTIONS = [
    (plainly, False, False),
    (with_context, True, False),
    (by_another_name, True, False),
    (awaited, False, True),
    (awaited_with_context, True, True),
    (Caller(), True, True),
]


def as_tool(function: Callable[..., Any]) -> Any:
    return tool()(function).tool_entry  # type: ignore[attr-defined]


def as_prompt(function: Callable[..., Any]) -> Any:
    return prompt()(function).prompt_entry  # type: ignore[attr-defined]


def as_resource(function: Callable[..., Any]) -> Any:
    return make_entry(resource("a://b")(function))


@pytest.mark.parametrize(
    ("made", "function", "asks", "is_async"),
    [
        *((as_resource, *row) for row in FUNCTIONS),
        (as_tool, with_context, True, False),
        (as_tool, awaited, False, True),
        (as_prompt, with_context, True, False),
        (as_prompt, awaited, False, True),
    ],
)
async def test_a_handler_takes_a_context_and_is_awaited_exactly_as_its_function(
    made: Callable[..., Any], function: Callable[..., Any], asks: bool, is_async: bool
) -> None:
    handler = made(function).handler
    name = find_context_parameter(handler)
    assert (name is not None) is asks
    assert inspect.iscoroutinefunction(handler) is is_async
    arguments = {name: CallContext(request_id="7")} if name else {}
    answer = handler({}, **arguments)
    assert (await answer if is_async else answer) == ("7" if asks else "none")


def test_the_context_is_no_variable() -> None:
    @resource("users://{id}")
    def user(id: int, ctx: CallContext) -> str:
        return f"{id} {ctx.request_id}"

    handler = make_template(user).handler
    assert handler({"id": "5"}, ctx=CallContext(request_id="7")) == "5 7"


# Templates


def test_variables_make_a_template() -> None:
    @resource("users://{id}/{part}{?deep}", name="user", mime_type="text/plain", title="User")
    def user(id: int, part: str, deep: bool = False) -> Any:
        """A user.

        Args:
            id: The number.
        """
        return id, part, deep

    entry = make_template(user)
    assert (entry.uri_template, entry.name, entry.description) == ("users://{id}/{part}{?deep}", "user", "A user.")
    assert (entry.mime_type, entry.title) == ("text/plain", "User")
    assert entry.handler({"id": "5", "part": "5"}) == (5, "5", False)
    assert entry.handler({"id": "5", "part": "p", "deep": "true"}) == (5, "p", True)
    assert user(1, "x", deep=True) == (1, "x", True)


TEXTS: list[tuple[Any, str | list[str], Any]] = [
    (Any, "5", "5"),
    (str, "null", "null"),
    (int, "5", 5),
    (int, "5.0", 5),
    (float, "5", 5.0),
    (float, "1e3", 1000.0),
    (Decimal, "1.50", Decimal("1.50")),
    (bool, "true", True),
    (date, "2026-01-02", date(2026, 1, 2)),
    (Unit, "celsius", Unit.C),
    (Level, "2", Level.HIGH),
    (Literal["a", 5, True], "5", 5),
    (Literal["1", 1], "1", "1"),
    (int | None, "null", None),
    (int | str, "5", "5"),
    (int | list[str], '["5"]', ["5"]),
    (Annotated[int, pydantic.Field(ge=5)], "5", 5),
    (list[int] | None, ["5"], [5]),
    (set[Level], ["1", "1"], {Level.LOW}),
    (tuple[int, str], ["5", "6"], (5, "6")),
    (list[int], "[5, 6]", [5, 6]),
    (list[Place], '[{"city": "Bonn", "floor": 5}]', [Place(city="Bonn", floor=5)]),
]


@pytest.mark.parametrize(("annotation", "text", "expected"), TEXTS)
def test_text_becomes_what_the_parameter_is_annotated_with(annotation: Any, text: Any, expected: Any) -> None:
    @resource("a://{it}")
    def function(it: annotation) -> Any:
        return it

    value = read(function, it=text)
    assert value == expected
    assert type(value) is type(expected)


WRONG: list[tuple[Any, str | list[str], str]] = [
    (int, "", "$.it: Input should be a valid integer"),
    (int, "5.5", "$.it: Input should be a valid integer"),
    (int, "9" * 5000, "$.it: Input should be a valid integer"),
    (bool, "yes", "$.it: Input should be a valid boolean"),
    (date, "2026-13-01", "$.it: Input should be a valid date in the format YYYY-MM-DD, month value is outside"),
    (Unit, "kelvin", "$.it: Input should be 'celsius' or 'fahrenheit'"),
    (Level, "3", "$.it: Input should be 1 or 2"),
    (Literal["a", 1], "2", "$.it: Input should be 'a' or 1"),
    (Annotated[int, pydantic.Field(ge=6)], "5", "$.it: Input should be greater than or equal to 6"),
    (Annotated[str, pydantic.Field(pattern="^[a-z]+$")], "5", "$.it: String should match pattern"),
    (list[int], ["5", "x"], "$.it[1]: Input should be a valid integer"),
    (list[int], '["x"]', "$.it[0]: Input should be a valid integer"),
    (list[int], "[" * 1000, "$.it: Input should be a valid array"),
    (str, ["a"], "$.it: Input should be a valid string"),
    (Place, '{"city": 5}', "$.it.city: Input should be a valid string"),
]


@pytest.mark.parametrize(("annotation", "text", "line"), WRONG)
def test_text_that_cannot_be_converted_is_an_error_with_its_path(annotation: Any, text: Any, line: str) -> None:
    @resource("a://{it}")
    def function(it: annotation) -> Any:
        raise AssertionError("reached")

    [report] = get_problems(function, it=text)
    assert report.startswith(line)


def test_each_variable_that_does_not_fit_has_a_line() -> None:
    @resource("a://{id}/{when}/{word}{?unit}")
    def function(id: int, when: date, word: str, unit: Unit) -> Any:
        raise AssertionError("reached")

    lines = get_problems(function, id="x", when="never", word="5", other="1")
    assert [line.partition(": ")[0] for line in lines] == ["$.id", "$.when", "$.unit", "$.other"]
    assert "$.unit: Field required" in lines


def test_text_that_cannot_be_encoded_is_rejected() -> None:
    @resource("a://{it}")
    def function(it: int) -> Any:
        raise AssertionError("reached")

    [line] = get_problems(function, it="\ud800")
    assert line.startswith("$: ")
    for nothing_like_it in (["5"], "5", {1: "5"}):
        with pytest.raises(InvalidArguments):
            make_template(function).handler(nothing_like_it)


def test_values_that_are_not_text_are_passed_unchanged() -> None:
    @resource("a://{it}")
    def function(it: int) -> Any:
        return it

    assert read(function, it=5) == 5
    assert get_problems(function, it=[5]) == ("$.it: Input should be a valid integer",)


async def test_clients_read_what_the_variables_of_a_uri_ask_for() -> None:
    registry = ToolRegistry()

    @resource("users://{id}/in{/path*}{?unit}", mime_type="text/x-user", registry=registry)
    async def user(ctx: CallContext, id: int, path: list[str], unit: Unit = Unit.C) -> str:
        return f"{id + 1} {path} {unit.value} {ctx.protocol_version}"

    @resource("users://all", registry=registry)
    def everybody(limit: int = 3) -> list[int]:
        """All of them."""
        return list(range(limit))

    async with connect(registry) as client:
        [one], [many] = (
            (await client.list_resources()).resources,
            (await client.list_resource_templates()).resource_templates,
        )
        assert (one.uri, one.name, one.description) == ("users://all", "everybody", "All of them.")
        assert (many.uri_template, many.name, many.mime_type) == (
            "users://{id}/in{/path*}{?unit}",
            "user",
            "text/x-user",
        )
        reads = [await client.read_resource(uri) for uri in ("users://all", "users://4/in/a/b?unit=fahrenheit")]
        assert [read.contents[0].text for read in reads] == [  # type: ignore[union-attr]
            "[0,1,2]",
            f"5 ['a', 'b'] fahrenheit {client.protocol_version}",
        ]
        with pytest.raises(MCPError, match=r"\$\.id: Input should be a valid integer") as rejection:
            await client.read_resource("users://ann/in/a")
        assert rejection.value.error.code == INVALID_PARAMS
        offers = await client.complete(
            ResourceTemplateReference(uri="users://{id}/in{/path*}{?unit}"), {"name": "unit", "value": "f"}
        )
        assert offers.completion.values == ["fahrenheit"]


# Names on both sides


@pytest.mark.parametrize(
    "uri",
    [
        "a://x{/id*}{?word}",
        "a://{id}/{#word}",
    ],
)
def test_variables_are_found_in_every_expression(uri: str) -> None:
    @resource(uri)
    def function(id: Any, word: str) -> Any:
        return id, word

    assert read(function, id="5", word="w") == ("5", "w")


def test_a_parameter_with_a_default_may_be_missing_in_the_template() -> None:
    @resource("a://{id}")
    def function(id: int, deep: bool = False, *words: str) -> Any:
        return id, deep, words

    assert read(function, id="5") == (5, False, ())


def test_a_function_with_any_keywords_takes_any_variables() -> None:
    @resource("a://{id}/{word}")
    def function(id: int, **remainder: Any) -> Any:
        return id, remainder

    assert read(function, id="5", word="6") == (5, {"word": "6"})


def test_different_parameters_and_variables_are_an_error_at_decoration() -> None:
    with pytest.raises(TypeError) as report:

        @resource("users://{id}/{part}")
        def user(key: int, part: str, ctx: CallContext) -> None: ...

    words = str(report.value)
    assert "user: parameter 'key' is not in the URI, variable 'id' is not a parameter: 'users://{id}/{part}'" in words
    assert "part'" not in words.replace("{part}'", "")


def test_a_resource_at_one_uri_cannot_need_an_argument() -> None:
    with pytest.raises(TypeError, match="today: parameter 'day' is not in the URI: 'notes://today'"):

        @resource("notes://today")
        def today(day: date) -> None: ...


@pytest.mark.parametrize("uri", ["notes", "{scheme}://a"])
def test_text_that_is_not_a_uri_is_an_error_with_a_hint(uri: str) -> None:
    with pytest.raises(ValueError, match=r"is not a URI\. Begin with a scheme, as in notes://today or users://{id}"):
        resource(uri)


@pytest.mark.parametrize("uri", ["a://{id", "a://id}", "a://{}"])
def test_an_unbalanced_brace_is_rejected(uri: str) -> None:
    with pytest.raises(ValueError, match=r"is not closed|brace|names no variable|is not a variable name"):
        resource(uri)


def test_a_resource_without_a_uri_is_an_error_with_an_example() -> None:
    bare: Any = resource
    with pytest.raises(TypeError, match=r"@resource needs a URI: @resource\('notes://today'\)"):

        @bare
        def today() -> None: ...


def test_a_template_has_no_size() -> None:
    with pytest.raises(TypeError, match="Omit size="):
        resource("a://{id}", size=5)


def test_an_unsupported_type_is_an_error() -> None:
    with pytest.raises(TypeError, match="parameter 'caller' has a type that JSON Schema cannot describe"):

        @resource("a://{caller}")
        def function(caller: Caller) -> None: ...


# Completions


def test_what_has_few_values_offers_them() -> None:
    @resource("a://{unit}/{level}/{kind}/{deep}/{word}{?maybe,number}")
    def function(
        unit: Unit,
        level: Level,
        kind: Literal["a", 1, None],
        deep: bool,
        word: str,
        maybe: Unit | bool | None = None,
        number: int = 0,
        elsewhere: bool = False,
    ) -> Any:
        return unit, level, kind, deep, maybe

    completions = make_template(function).completions
    assert completions == {
        "unit": ("celsius", "fahrenheit"),
        "level": ("1", "2"),
        "kind": ("a", "1"),
        "deep": ("true", "false"),
        "maybe": ("celsius", "fahrenheit", "true", "false"),
    }


def test_every_value_that_is_offered_fits() -> None:
    class Mixed(enum.Enum):
        WORD = "a"
        NUMBER = 0.5
        YES = True

    @resource("a://{it}")
    def function(it: Mixed) -> Any:
        return it

    offers: Any = make_template(function).completions["it"]
    assert offers == ("a", "0.5", "true")
    assert [read(function, it=text) for text in offers] == [Mixed.WORD, Mixed.NUMBER, Mixed.YES]


def test_completions_of_the_author_replace_those_of_the_type() -> None:
    def words(text: str) -> list[str]:
        return ["one"]

    @resource("a://{unit}/{word}", completions={"unit": ["celsius"], "word": words})
    def function(unit: Unit, word: str) -> None: ...

    assert make_template(function).completions == {"unit": ["celsius"], "word": words}


@pytest.mark.parametrize("uri", ["a://{id}", "a://b"])
def test_completions_for_an_unknown_variable_are_an_error(uri: str) -> None:
    with pytest.raises(TypeError, match="completions are given for 'ib', which is not an argument"):

        @resource(uri, completions={"ib": ["1"]})
        def function(id: int = 1) -> None: ...


# The registry


def test_the_entry_is_registered_and_a_second_one_of_its_uri_is_an_error() -> None:
    registry = ToolRegistry()

    @resource("notes://today", registry=registry)
    def today() -> str:
        return "nothing"

    @resource("notes://{day}", registry=registry)
    def of_day(day: date) -> str:
        return str(day)

    assert list(registry.resources) == [make_entry(today)]
    assert list(registry.templates) == [make_template(of_day)]
    for uri in ("notes://today", "notes://{day}"):
        with pytest.raises(DuplicateTool):
            resource(uri, registry=registry)(lambda day="": day)


def test_one_function_can_be_a_tool_and_a_resource() -> None:
    @tool
    @resource("users://{id}")
    def user(id: int) -> str:
        return f"user {id}"

    both: Any = user
    assert both(1) == both.tool_entry.handler({"id": 1}) == both.resource_entry.handler({"id": "1"}) == "user 1"


async def test_an_async_function_stays_async() -> None:
    @resource("users://{id}")
    async def user(id: int) -> str:
        return f"user {id}"

    assert await user(1) == "user 1"
    assert await read(user, id="1") == "user 1"
