"""ToolRegistry: registering, finding and invoking tools inside the process."""

import functools

import anyio
import anyio.lowlevel
import pytest

from mcp_bridge.tool_use import Result, ResultStatus, ToolDefinition, ToolEntry, ToolRegistry
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS
from tests.kits.wire.speaking import build_registry

NUMBER = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


def make_entry(name="a", handler=lambda data: data, **fields):
    return ToolEntry(name, fields.pop("description", f"Tool {name}."), handler, **fields)


def build_recording_tool():
    observations = []

    def handler(*args, **kwargs):
        observations.append((args, kwargs))
        return "done"

    return observations, handler


# Entries


def test_an_entry_as_a_dictionary_leaves_out_the_handler():
    item = ToolEntry("a", "Does a.", print, {"type": "object"}, {"type": "string"}, ["x"])
    assert item.to_dict() == {
        "name": "a",
        "description": "Does a.",
        "input_schema": {"type": "object"},
        "output_schema": {"type": "string"},
        "tags": ["x"],
    }


def test_an_entry_becomes_a_definition_of_the_tool_use_module():
    item = ToolEntry("a", "Does a.", print, {"type": "object"}, {"type": "string"}, ["x"])
    assert item.to_tool_definition() == ToolDefinition(
        "a", "Does a.", "tool_use", {"type": "object"}, {"type": "string"}, ["x"]
    )


def test_the_module_of_a_definition_can_be_named():
    assert make_entry().to_tool_definition("weather").module == "weather"
    assert make_entry().to_tool_definition(module="weather").module == "weather"


def test_a_definition_shares_the_schemas_and_copies_the_tags():
    item = make_entry(input_schema={"type": "object"}, output_schema={"type": "string"}, tags=["x"])
    definition = item.to_tool_definition()
    assert definition.input_schema is item.input_schema
    assert definition.output_schema is item.output_schema
    definition.tags.append("y")
    assert item.tags == ["x"]


# Registering and finding


def test_a_new_registry_is_empty():
    registry = ToolRegistry()
    assert len(registry) == 0
    assert registry.list() == []
    assert registry.list_names() == []
    assert "a" not in registry


def test_a_registered_entry_is_found_by_its_exact_name():
    registry, item = ToolRegistry(), make_entry("a")
    assert registry.register(item) is None
    assert registry.get("a") is item
    assert registry.get("A") is None
    assert registry.get("missing") is None


def test_a_second_tool_of_the_same_name_is_an_error_and_the_first_stays():
    first = make_entry("a")
    registry = build_registry(first)
    with pytest.raises(ValueError, match="already registered") as caught:
        registry.register(make_entry("a"))
    assert str(caught.value) == "Tool 'a' is already registered. Unregister it first or use a different name."
    assert registry.get("a") is first
    assert len(registry) == 1


def test_a_function_is_no_tool_and_the_error_names_the_decorator() -> None:
    with pytest.raises(TypeError, match=r"expects a ToolEntry, but got a function\. For a function"):
        ToolRegistry().register(lambda: None)  # type: ignore[arg-type]


def test_unregister_returns_whether_the_name_existed():
    registry = build_registry(make_entry("a"))
    assert registry.unregister("a") is True
    assert registry.unregister("a") is False
    assert registry.get("a") is None
    assert "a" not in registry


def test_a_name_is_free_again_once_unregistered():
    registry = build_registry(make_entry("a"))
    registry.unregister("a")
    second = make_entry("a")
    registry.register(second)
    assert registry.get("a") is second


def test_registries_do_not_share_their_tools():
    build_registry(make_entry("a"))
    assert len(ToolRegistry()) == 0


def test_listings_are_sorted_by_name():
    registry = build_registry(make_entry("c"), make_entry("a"), make_entry("B"), make_entry("b"))
    assert registry.list_names() == ["B", "a", "b", "c"]
    assert [item.name for item in registry.list()] == ["B", "a", "b", "c"]


def test_a_listing_holds_the_entries_and_changing_it_does_not_change_the_registry():
    item = make_entry("a")
    registry = build_registry(item)
    listing, list_names = registry.list(), registry.list_names()
    assert listing[0] is item
    assert isinstance(listing, list)
    assert isinstance(list_names, list)
    listing.clear()
    list_names.clear()
    assert registry.list_names() == ["a"]


def test_length_and_membership_follow_the_tools():
    registry = build_registry(make_entry("a"), make_entry("b"))
    assert len(registry) == 2
    assert "a" in registry
    assert "c" not in registry
    assert 5 not in registry
    assert None not in registry


def test_the_representation_lists_the_sorted_names():
    assert repr(build_registry(make_entry("b"), make_entry("a"))) == "ToolRegistry(tools=['a', 'b'])"
    assert repr(ToolRegistry()) == "ToolRegistry(tools=[])"


# Searching


@pytest.fixture
def shop():
    return build_registry(
        make_entry("read_file", tags=["io", "safe"]),
        make_entry("write_file", tags=["io"]),
        make_entry("Read_Web", tags=["net", "safe"]),
        make_entry("add"),
    )


def list_names(entries):
    assert isinstance(entries, list)
    return [item.name for item in entries]


def test_a_search_without_filters_finds_everything_sorted(shop):
    assert list_names(shop.search()) == ["Read_Web", "add", "read_file", "write_file"]


@pytest.mark.parametrize("text", ["read", "READ", "rEaD_"])
def test_a_search_by_name_ignores_case(shop, text):
    assert list_names(shop.search(name_contains=text)) == ["Read_Web", "read_file"]


def test_a_search_by_name_looks_anywhere_in_the_name_and_nowhere_else(shop):
    assert list_names(shop.search(name_contains="file")) == ["read_file", "write_file"]
    assert list_names(shop.search(name_contains="Tool")) == []
    assert list_names(shop.search(name_contains=".*")) == []


def test_any_tag_will_do_by_default(shop):
    assert list_names(shop.search(tags=["net", "io"])) == ["Read_Web", "read_file", "write_file"]
    assert list_names(shop.search(tags=["io", "nope"])) == ["read_file", "write_file"]
    assert list_names(shop.search(tags=["nope"])) == []


def test_every_tag_must_match_when_asked(shop):
    assert list_names(shop.search(tags=["io", "safe"], match_all_tags=True)) == ["read_file"]
    assert list_names(shop.search(tags=["io", "nope"], match_all_tags=True)) == []


def test_tags_are_compared_exactly(shop):
    assert list_names(shop.search(tags=["IO"])) == []
    assert list_names(shop.search(tags=["saf"])) == []


@pytest.mark.parametrize(("tags", "match_all_tags"), [(None, False), ([], False), ([], True)])
def test_no_tags_are_no_filter(shop, tags, match_all_tags):
    assert len(shop.search(tags=tags, match_all_tags=match_all_tags)) == 4


def test_name_and_tags_must_both_match(shop):
    assert list_names(shop.search(name_contains="read", tags=["io"])) == ["read_file"]
    assert list_names(shop.search(name_contains="write", tags=["net"])) == []


def test_the_filters_of_a_search_are_keywords_only(shop):
    with pytest.raises(TypeError):
        shop.search("read")


# Invoking. Every rule holds for both doors: `invoke` and `await ainvoke`.


async def call_with_invoke(registry, *args, **kwargs):
    return registry.invoke(*args, **kwargs)


async def call_with_ainvoke(registry, *args, **kwargs):
    return await registry.ainvoke(*args, **kwargs)


@pytest.fixture(params=[call_with_invoke, call_with_ainvoke], ids=["invoke", "ainvoke"])
def invoke_tool(request):
    return request.param


async def test_a_successful_call_gives_the_data_and_a_message(invoke_tool):
    result = await invoke_tool(build_registry(make_entry("double", lambda data: data["n"] * 2)), "double", {"n": 21})
    assert isinstance(result, Result)
    assert result.status is ResultStatus.SUCCESS
    assert result.ok
    assert result.data == 42
    assert result.message == "Tool 'double' executed successfully."
    assert result.errors == []


async def test_a_call_is_timed_in_milliseconds(invoke_tool):
    result = await invoke_tool(build_registry(make_entry()), "a", {})
    assert isinstance(result.duration_ms, float)
    assert 0 <= result.duration_ms < 60_000


@pytest.mark.parametrize("data", [{"n": 1}, [1, 2], "text", 0, None])
async def test_the_handler_gets_the_data_as_its_one_positional_argument(invoke_tool, data):
    observations, handler = build_recording_tool()
    result = await invoke_tool(build_registry(make_entry("a", handler)), "a", data)
    assert result.ok
    assert observations == [((data,), {})]


async def test_without_data_the_handler_gets_none(invoke_tool):
    observations, handler = build_recording_tool()
    await invoke_tool(build_registry(make_entry("a", handler)), "a")
    assert observations == [((None,), {})]


async def test_the_data_can_be_passed_by_keyword(invoke_tool):
    result = await invoke_tool(build_registry(make_entry()), name="a", input_data={"n": 1}, validate=True)
    assert result.data == {"n": 1}


@pytest.mark.parametrize("value", [None, False, "", {}, b"raw", (1, 2)])
async def test_what_the_handler_returns_is_the_data_unchanged(invoke_tool, value):
    result = await invoke_tool(build_registry(make_entry("a", lambda data: value)), "a", {})
    assert result.ok
    assert result.data is value


async def test_an_unknown_tool_is_a_failure(invoke_tool):
    result = await invoke_tool(build_registry(make_entry("a")), "zzz", {})
    assert result == Result(
        ResultStatus.FAILURE, None, "Tool 'zzz' not found in registry.", ["Unknown tool: zzz"], {}, None
    )


async def test_an_unregistered_tool_is_unknown(invoke_tool):
    registry = build_registry(make_entry("a"))
    assert (await invoke_tool(registry, "a", {})).ok
    registry.unregister("a")
    assert (await invoke_tool(registry, "a", {})).errors == ["Unknown tool: a"]


async def test_a_replaced_tool_answers_with_its_new_handler_and_schema(invoke_tool):
    registry = build_registry(make_entry("a", lambda data: "old", input_schema={"type": "string"}))
    assert (await invoke_tool(registry, "a", "x")).data == "old"
    registry.unregister("a")
    registry.register(make_entry("a", lambda data: "new", input_schema={"type": "integer"}))
    assert (await invoke_tool(registry, "a", 1)).data == "new"
    assert (await invoke_tool(registry, "a", "x")).errors == ["$: expected type integer, got str"]


async def test_a_changed_field_of_an_entry_applies_to_the_next_call(invoke_tool):
    live = make_entry("a", lambda data: "old", input_schema={"type": "string"}, output_schema={"type": "string"})
    registry = build_registry(live)
    assert (await invoke_tool(registry, "a", "x")).data == "old"
    live.handler, live.input_schema, live.output_schema = lambda data: 5, {"type": "integer"}, {"type": "integer"}
    assert (await invoke_tool(registry, "a", "x")).errors == ["$: expected type integer, got str"]
    assert (await invoke_tool(registry, "a", 1)).status is ResultStatus.SUCCESS

    async def handle(data):
        return "text"

    live.handler = handle
    assert (await invoke_tool(registry, "a", 1)).errors == ["$: expected type integer, got str"]


async def test_a_change_within_a_schema_applies_to_the_next_call(invoke_tool):
    live = make_entry("a", input_schema={"properties": {"n": {"enum": [1]}}}, output_schema={"properties": {}})
    registry = build_registry(live)
    assert (await invoke_tool(registry, "a", {"n": 1})).ok
    live.input_schema["properties"]["n"]["enum"].append(2)
    assert (await invoke_tool(registry, "a", {"n": 2})).ok
    live.input_schema["required"] = ["m"]
    assert (await invoke_tool(registry, "a", {"n": 2})).errors == ["$.m: required field missing"]
    live.output_schema["properties"]["m"] = {"type": "string"}
    assert (await invoke_tool(registry, "a", {"n": 2, "m": 1})).status is ResultStatus.PARTIAL


async def test_a_schema_that_contains_itself_does_not_make_a_call_raise(invoke_tool):
    schema = {"type": "object", "properties": {}}
    schema["properties"] |= {"left": schema, "right": schema}
    registry = build_registry(make_entry("a", input_schema=schema))
    results = [await invoke_tool(registry, "a", {}) for _ in range(2)]
    assert results[0].status is results[1].status


async def test_bad_input_is_a_failure_and_never_reaches_the_handler(invoke_tool):
    observations, handler = build_recording_tool()
    result = await invoke_tool(build_registry(make_entry("s", handler, input_schema=NUMBER)), "s", {"n": "x"})
    assert result == Result(
        ResultStatus.FAILURE,
        None,
        "Input validation failed for tool 's'.",
        ["$.n: expected type integer, got str"],
        {},
        None,
    )
    assert observations == []


async def test_every_problem_of_the_input_is_reported(invoke_tool):
    schema = NUMBER | {"additionalProperties": False}
    result = await invoke_tool(build_registry(make_entry("s", input_schema=schema)), "s", {"b": 1, "a": 2})
    assert result.errors == [
        "$.n: required field missing",
        "$.a: additional property not allowed",
        "$.b: additional property not allowed",
    ]


@pytest.mark.parametrize(
    ("schema", "data"),
    [({"pattern": "^a"}, "b"), ({"anyOf": [{"type": "string"}]}, 1), ({"properties": {"a": False}}, {"a": 1})],
)
async def test_further_keywords_also_reject_input_before_the_handler(invoke_tool, schema, data):
    observations, handler = build_recording_tool()
    result = await invoke_tool(build_registry(make_entry("s", handler, input_schema=schema)), "s", data)
    assert result.status is ResultStatus.FAILURE
    assert len(result.errors) == 1
    assert observations == []


async def test_an_exception_is_a_failure_with_its_text(invoke_tool):
    def explode(data):
        raise RuntimeError("boom")

    result = await invoke_tool(build_registry(make_entry("x", explode)), "x", {})
    assert result.status is ResultStatus.FAILURE
    assert result.data is None
    assert result.message == "Tool 'x' raised an exception: boom"
    assert result.errors == ["boom"]
    assert isinstance(result.duration_ms, float)


async def test_the_text_of_an_exception_is_what_str_gives(invoke_tool):
    result = await invoke_tool(build_registry(make_entry("x", lambda data: {}["k"])), "x", {})
    assert result.message == "Tool 'x' raised an exception: 'k'"
    assert result.errors == ["'k'"]


async def test_an_exception_without_text_is_still_a_failure(invoke_tool):
    def explode(data):
        raise ValueError

    result = await invoke_tool(build_registry(make_entry("x", explode)), "x", {})
    assert result.status is ResultStatus.FAILURE
    assert result.errors == [""]


async def test_a_handler_that_cannot_take_the_argument_is_a_failure(invoke_tool):
    result = await invoke_tool(build_registry(make_entry("x", lambda: None)), "x", {})
    assert result.status is ResultStatus.FAILURE
    assert result.message.startswith("Tool 'x' raised an exception: ")


@pytest.mark.parametrize("error_type", [SystemExit, KeyboardInterrupt])
def test_an_exit_or_interrupt_in_a_handler_propagates(error_type):
    def leave(data):
        raise error_type("bye")

    with pytest.raises(error_type, match="bye"):
        build_registry(make_entry("x", leave)).invoke("x", {})


async def test_invalid_output_is_partial_and_keeps_the_data(invoke_tool):
    registry = build_registry(make_entry("out", lambda data: {"n": "x"}, output_schema=NUMBER))
    result = await invoke_tool(registry, "out", {})
    assert result.status is ResultStatus.PARTIAL
    assert not result.ok
    assert result.data == {"n": "x"}
    assert result.message == "Output validation failed for tool 'out'."
    assert result.errors == ["$.n: expected type integer, got str"]
    assert isinstance(result.duration_ms, float)


async def test_good_output_is_a_success(invoke_tool):
    registry = build_registry(make_entry("out", lambda data: {"n": 1}, output_schema=NUMBER))
    assert (await invoke_tool(registry, "out", {})).status is ResultStatus.SUCCESS


async def test_without_validation_neither_input_nor_output_is_checked(invoke_tool):
    item = make_entry("s", lambda data: "not a number", input_schema=NUMBER, output_schema=NUMBER)
    result = await invoke_tool(build_registry(item), "s", "bad", validate=False)
    assert result.status is ResultStatus.SUCCESS
    assert result.data == "not a number"


async def test_without_validation_an_exception_is_still_a_failure(invoke_tool):
    result = await invoke_tool(build_registry(make_entry("x", lambda data: 1 / 0)), "x", {}, validate=False)
    assert result.errors == ["division by zero"]


async def test_schemas_that_cannot_be_used_do_not_make_a_call_raise(invoke_tool):
    broken = {"type": "object", "properties": {"a": {"pattern": "("}}, "required": 5}
    result = await invoke_tool(
        build_registry(make_entry("s", input_schema=broken, output_schema=broken)), "s", {"b": 1}
    )
    assert isinstance(result, Result)


async def test_data_that_is_not_json_reaches_an_open_tool(invoke_tool):
    observations, handler = build_recording_tool()
    data = {"raw": b"\xff", "ids": {1, 2}, "made_by": print}
    assert (await invoke_tool(build_registry(make_entry("a", handler, input_schema={"type": "object"})), "a", data)).ok
    assert observations == [((data,), {})]


async def test_keys_that_are_not_text_do_not_make_a_call_raise(invoke_tool):
    for schema in ({"type": "object"}, {"type": "object", "additionalProperties": False}, NUMBER):
        item = make_entry("a", lambda data: {5: 1, None: 2}, input_schema=schema, output_schema=schema)
        assert isinstance(await invoke_tool(build_registry(item), "a", {5: 1, "b": 2}), Result)


async def test_a_failed_call_leaves_the_tool_usable(invoke_tool):
    registry = build_registry(make_entry("div", lambda data: 1 / data["n"], input_schema=NUMBER))
    assert not (await invoke_tool(registry, "div", {"n": 0})).ok
    assert not (await invoke_tool(registry, "div", {"n": "x"})).ok
    assert (await invoke_tool(registry, "div", {"n": 1})).data == 1


async def test_a_handler_may_call_the_registry_again(invoke_tool):
    registry = build_registry(make_entry("inner", lambda data: data + 1))
    registry.register(make_entry("outer", lambda data: registry.invoke("inner", data).data * 10))
    assert (await invoke_tool(registry, "outer", 1)).data == 20


async def test_a_handler_may_register_and_unregister_tools(invoke_tool):
    registry = ToolRegistry()

    def grow(data):
        registry.register(make_entry("b"))
        return registry.unregister("grow")

    registry.register(make_entry("grow", grow))
    assert (await invoke_tool(registry, "grow", {})).data is True
    assert registry.list_names() == ["b"]


# Async handlers


async def twice(data):
    await anyio.lowlevel.checkpoint()
    return data["n"] * 2


class Callable_:
    async def __call__(self, data):
        await anyio.lowlevel.checkpoint()
        return data["n"] * 2

    async def method(self, data):
        return await self(data)


ASYNC_HANDLERS = {
    "function": twice,
    "method": Callable_().method,
    "object": Callable_(),
    "partial": functools.partial(twice),
    "returning an awaitable": lambda data: twice(data),
}


@pytest.fixture(params=ASYNC_HANDLERS.values(), ids=ASYNC_HANDLERS.keys())
def async_handler(request):
    return request.param


@BOTH_LOOPS
async def test_an_async_handler_is_awaited(invoke_tool, async_handler):
    result = await invoke_tool(
        build_registry(make_entry("double", async_handler, input_schema=NUMBER)), "double", {"n": 21}
    )
    assert result.status is ResultStatus.SUCCESS
    assert result.data == 42
    assert result.message == "Tool 'double' executed successfully."
    assert isinstance(result.duration_ms, float)


def test_invoke_runs_an_async_handler_without_an_event_loop(async_handler):
    result = build_registry(make_entry("double", async_handler)).invoke("double", {"n": 21})
    assert (result.status, result.data) == (ResultStatus.SUCCESS, 42)


def test_invoke_runs_async_handlers_again_and_again():
    registry = build_registry(make_entry("double", twice))
    assert [registry.invoke("double", {"n": n}).data for n in range(5)] == [0, 2, 4, 6, 8]


async def test_an_exception_in_an_async_handler_is_a_failure(invoke_tool):
    async def explode(data):
        await anyio.lowlevel.checkpoint()
        raise RuntimeError("boom")

    result = await invoke_tool(build_registry(make_entry("x", explode)), "x", {})
    assert result.status is ResultStatus.FAILURE
    assert result.message == "Tool 'x' raised an exception: boom"
    assert result.errors == ["boom"]


async def test_the_output_of_an_async_handler_is_validated(invoke_tool):
    result = await invoke_tool(
        build_registry(make_entry("double", twice, output_schema={"type": "string"})), "double", {"n": 1}
    )
    assert result.status is ResultStatus.PARTIAL
    assert result.data == 2
    assert result.errors == ["$: expected type string, got int"]


async def test_an_async_handler_is_not_started_with_bad_input(invoke_tool):
    async def unreachable(data):
        raise AssertionError("reached")

    result = await invoke_tool(build_registry(make_entry("s", unreachable, input_schema=NUMBER)), "s", {})
    assert result.errors == ["$.n: required field missing"]


async def test_an_async_handler_may_invoke_another_one():
    registry = build_registry(make_entry("double", twice))

    async def outer(data):
        return registry.invoke("double", data).data + (await registry.ainvoke("double", data)).data

    registry.register(make_entry("outer", outer))
    assert registry.invoke("outer", {"n": 1}).data == 4
    assert (await registry.ainvoke("outer", {"n": 1})).data == 4


async def test_calls_through_ainvoke_run_side_by_side():
    first_waits, answers = anyio.Event(), {}

    async def handler(data):
        if data == "first":
            await first_waits.wait()
        else:
            first_waits.set()
        return data

    registry = build_registry(make_entry("a", handler))

    async def call(data):
        answers[data] = (await registry.ainvoke("a", data)).data

    with anyio.fail_after(TIMEOUT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, "first")
            tasks.start_soon(call, "second")
    assert answers == {"first": "first", "second": "second"}


@BOTH_LOOPS
async def test_cancelling_ainvoke_cancels_the_handler():
    ends = []

    async def wait_forever(data):
        try:
            data.cancel()
            await anyio.sleep_forever()
        finally:
            ends.append(True)

    with anyio.CancelScope() as scope:
        await build_registry(make_entry("a", wait_forever)).ainvoke("a", scope)
        raise AssertionError("a cancelled call must not answer")
    assert scope.cancelled_caught
    assert ends == [True]
