"""Chains as tools: their definitions, results and errors, and the attempts of each step."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import pytest
from mcp_types import ElicitResult

from mcp_bridge import CallContext, ChainStep, ToolChain, ToolError, ToolRegistry, ToolResult, tool
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolEntry
from mcp_bridge.middleware import Pipeline
from mcp_bridge.testing import connect
from mcp_bridge.tool_use import ResultStatus
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS
from tests.kits.wire.speaking import ERAS, build_registry, call, get_text, list_tools, make_entry

NUMBERS = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}


def add(data: dict[str, Any]) -> Any:
    return data["a"] + data["b"]


def fail(data: dict[str, Any]) -> Any:
    raise ToolError("Nothing there.", code="no_data")


@pytest.fixture
def registry() -> ToolRegistry:
    """Return a registry with page (a text), count (its words), add (two numbers) and fail (raises)."""

    def count(data: dict[str, Any]) -> int:
        return len(data["words"].split())

    text = {"type": "object", "properties": {"words": {"type": "string"}}, "required": ["words"]}
    return build_registry(
        make_entry(lambda data: {"text": "one two three", "status": 200}, "page"),
        make_entry(count, "count", input_schema=text),
        make_entry(add, "add", input_schema=NUMBERS),
        make_entry(fail, "fail"),
    )


def build_chain(registry: ToolRegistry, *steps: ChainStep) -> ToolChain:
    chain = ToolChain(registry)
    for step in steps:
        chain.add_step(step)
    return chain


def build_word_count_chain(registry: ToolRegistry) -> ToolChain:
    return build_chain(
        registry, ChainStep("page", output_key="page"), ChainStep("count", {"words": "page.text"}, "total")
    )


async def run(entry: ToolEntry, arguments: dict[str, Any] | None = None, **options: Any) -> ToolResult:
    registry = ToolRegistry(pipeline=Pipeline(**options))
    registry.register(entry)
    with anyio.fail_after(TIMEOUT):
        return await registry.dispatch(ToolCall(id="1", name=entry.name, arguments=arguments or {}), RunningCall())


# The input schema


def get_schema(registry: ToolRegistry, *steps: ChainStep) -> dict[str, Any]:
    return build_chain(registry, *steps).as_tool("chain").input_schema


def test_a_chain_requires_what_its_first_step_requires_under_the_names_of_the_context(registry: ToolRegistry) -> None:
    assert get_schema(registry, ChainStep("add", {"a": "x", "b": "y"}, "sum")) == {
        "type": "object",
        "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
        "required": ["x", "y"],
    }


def test_a_chain_whose_first_step_receives_the_whole_context_has_its_schema(registry: ToolRegistry) -> None:
    assert get_schema(registry, ChainStep("add"), ChainStep("count", {"words": "w"})) == NUMBERS


def test_a_path_is_required_as_an_object_with_that_value(registry: ToolRegistry) -> None:
    assert get_schema(registry, ChainStep("add", {"a": "x.y", "b": "x.z"}, "sum")) == {
        "type": "object",
        "properties": {
            "x": {
                "type": "object",
                "properties": {"y": {"type": "number"}, "z": {"type": "number"}},
                "required": ["y", "z"],
            }
        },
        "required": ["x"],
    }


def test_inputs_of_later_steps_are_required_unless_an_earlier_step_can_produce_them(registry: ToolRegistry) -> None:
    first = ChainStep("add", {"a": "x", "b": "x"}, "sum")
    later = ChainStep("add", {"a": "sum", "b": "y"}, "total")
    assert get_schema(registry, first, later)["required"] == ["x", "y"]
    merging = ChainStep("add", {"a": "x", "b": "x"})
    assert get_schema(registry, merging, later)["required"] == ["x"]


def test_a_mapped_input_that_may_be_null_is_optional(registry: ToolRegistry) -> None:
    @tool(registry=registry)
    def greet(name: str, title: str | None = None, excited: bool = False) -> str:
        return f"{title} {name}"

    schema = get_schema(registry, ChainStep("greet", {"name": "n", "title": "t", "excited": "e"}))
    # Without a value, null would replace false, and null is no boolean.
    assert schema["required"] == ["n", "e"]
    assert set(schema["properties"]) == {"n", "t", "e"}


def test_an_input_keeps_the_definitions_of_its_type(registry: ToolRegistry) -> None:
    place = {"type": "object", "properties": {"city": {"type": "string"}}}
    text = {"type": "object", "properties": {"to": {"$ref": "#/$defs/Place"}}, "$defs": {"Place": place}}
    registry.register(make_entry(add, "travel", input_schema=text))
    schema = get_schema(registry, ChainStep("travel", {"to": "goal"}))
    assert schema["properties"] == {"goal": {"$ref": "#/$defs/Place"}}
    assert schema["$defs"] == {"Place": place}
    assert schema["required"] == ["goal"]


def test_an_input_whose_type_is_not_valid_elsewhere_has_none(registry: ToolRegistry) -> None:
    text = {"type": "object", "properties": {"to": {"$ref": "#/properties/by"}, "by": {"type": "string"}}}
    registry.register(make_entry(add, "travel", input_schema={**text, "required": ["to"]}))
    assert get_schema(registry, ChainStep("travel", {"to": "goal"})) == {
        "type": "object",
        "properties": {"goal": {}},
        "required": ["goal"],
    }


def test_a_chain_accepts_anything_if_nothing_is_known_about_its_input(registry: ToolRegistry) -> None:
    assert get_schema(registry) == {}
    assert get_schema(registry, ChainStep("gone", {"a": "b"})) == {"type": "object", "properties": {"b": {}}}
    assert get_schema(registry, ChainStep("gone")) == {}
    assert get_schema(registry, ChainStep("page")) == {}
    assert get_schema(registry, ChainStep("fail", {"a": ".", "b": ""})) == {}


def test_a_schema_of_the_author_is_published_as_it_is(registry: ToolRegistry) -> None:
    chain = build_chain(registry, ChainStep("add"))
    assert chain.as_tool("chain", input_schema={}).input_schema == {}
    assert chain.as_tool("chain", "", {"required": ["q"]}).input_schema == {"required": ["q"]}


async def test_a_client_sees_the_inferred_schema_and_may_pass_more(registry: ToolRegistry) -> None:
    chain = build_chain(registry, ChainStep("add", {"a": "x", "b": "y"}, "sum"))
    registry.register(chain.as_tool("chain"))
    async with connect(registry) as client:
        (publication,) = [item for item in await list_tools(client) if item["name"] == "chain"]
        assert publication["inputSchema"]["required"] == ["x", "y"]
        assert "$.y: required field missing" in get_text(await call(client, "chain", x=1))
        assert (await call(client, "chain", x=1, y=2, z=3))["structuredContent"] == {"x": 1, "y": 2, "z": 3, "sum": 3}


# What it returns


@pytest.mark.parametrize(
    ("output", "returned"),
    [
        (None, {"page": {"text": "one two three", "status": 200}, "total": 3}),
        ("total", 3),
        ("page.status", 200),
        ("nothing", None),
        (["total", "page.text"], {"total": 3, "page.text": "one two three"}),
        ([], {}),
    ],
)
async def test_a_chain_returns_the_selected_values_of_its_context(
    registry: ToolRegistry, output: Any, returned: Any
) -> None:
    assert (await run(build_word_count_chain(registry).as_tool("chain", output=output))).output == returned


async def test_the_output_schema_is_that_of_the_selected_value(registry: ToolRegistry) -> None:
    number = {"type": "integer"}
    result = await run(build_word_count_chain(registry).as_tool("chain", output_schema=number, output="total"))
    assert result.output == 3
    assert (await run(build_word_count_chain(registry).as_tool("chain", output_schema=number))).code == "invalid_output"


# Errors


async def test_an_error_names_the_step_what_has_run_and_what_to_do(registry: ToolRegistry) -> None:
    chain = build_chain(registry, ChainStep("page"), ChainStep("page"), ChainStep("fail"), ChainStep("count"))
    result = await run(chain.as_tool("chain"))
    assert result.code == "no_data"
    assert result.error_text == (
        "Step 3 of 4 ('fail') failed: Nothing there.\n"
        "'page', 'page' have already run and are not undone. Retry only if running them again is safe."
    )


async def test_an_error_of_the_first_step_reports_that_no_other_step_has_run(registry: ToolRegistry) -> None:
    result = await run(build_chain(registry, ChainStep("fail"), ChainStep("page")).as_tool("chain"))
    assert result.error_text == (
        "Step 1 of 2 ('fail') failed: Nothing there.\nNo other step has run. Fix the problem and retry."
    )


async def test_a_denied_step_does_not_advise_to_retry(registry: ToolRegistry) -> None:
    from mcp_bridge._contracts.errors import Denied

    def deny(data: Any) -> None:
        raise Denied("Not you.")

    registry.register(make_entry(deny, "deny"))
    result = await run(build_chain(registry, ChainStep("deny")).as_tool("chain"))
    assert (result.code, result.error_text) == (
        "denied",
        "Step 1 of 1 ('deny') failed: Not you.\nNo other step has run.",
    )
    result = await run(build_chain(registry, ChainStep("page"), ChainStep("deny")).as_tool("chain"))
    assert result.error_text.endswith("\n'page' has already run and is not undone.")


async def test_a_mapped_value_that_nothing_has_produced_is_named(registry: ToolRegistry) -> None:
    chain = build_chain(registry, ChainStep("page", output_key="page"), ChainStep("count", {"words": "page.txt"}))
    result = await run(chain.as_tool("chain"))
    assert result.code == "invalid_arguments"
    assert result.error_text == (
        "Step 2 of 2 ('count') failed: its input is not valid.\n"
        "- $.words: expected type string, got null\n"
        "Neither the arguments nor earlier steps have a value for 'page.txt'.\n"
        "'page' has already run and is not undone. Retry only if running it again is safe."
    )


async def test_all_steps_run_if_failures_do_not_stop_the_chain(registry: ToolRegistry) -> None:
    chain = build_chain(
        registry,
        ChainStep("fail", output_key="f"),
        *build_word_count_chain(registry).steps,
        ChainStep("fail", output_key="g"),
    )
    result = await run(chain.as_tool("chain", output="total", stop_on_failure=False))
    assert result.is_error
    assert result.code == "chain_failed"
    assert result.output == 3
    assert result.error_text == (
        "Step 1 of 4 ('fail') failed: Nothing there.\n"
        "Step 4 of 4 ('fail') failed: Nothing there.\n"
        "All other steps have run and are not undone."
    )


async def test_a_step_with_continue_on_failure_may_fail_and_a_note_reports_it(registry: ToolRegistry) -> None:
    chain = build_chain(registry, ChainStep("fail", continue_on_failure=True), *build_word_count_chain(registry).steps)
    registry.register(chain.as_tool("chain", output=["total"]))
    registry.register(
        build_chain(registry, ChainStep("fail", continue_on_failure=True)).as_tool("none", output="total")
    )
    async with connect(registry) as client:
        result = await call(client, "chain")
        note = "Step 1 of 3 ('fail') failed: Nothing there.\nThe chain continued without this step."
        assert not result["isError"]
        assert result["structuredContent"] == {"total": 3}
        assert [block["text"] for block in result["content"]] == ['{"total":3}', note]
        assert get_text(await call(client, "none")) == note.replace("of 3", "of 1")


def test_execute_continues_after_a_step_that_may_fail(registry: ToolRegistry) -> None:
    chain = build_chain(registry, ChainStep("fail", continue_on_failure=True), *build_word_count_chain(registry).steps)
    result = chain.execute()
    # Not all steps have completed.
    assert not result.success
    assert result.context["total"] == 3
    assert result.errors[-1].startswith("Step 0 ('fail') failed: ")


# Attempts and time limits


class Flaky:
    """A tool with this many failures before its first success."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.calls = 0

    def __call__(self, data: Any) -> dict[str, int]:
        self.calls += 1
        if self.calls <= self.failures:
            raise ToolError("Busy.")
        return {"calls": self.calls}


@BOTH_LOOPS
@pytest.mark.parametrize(("attempts", "calls", "ok"), [(1, 1, False), (2, 2, False), (3, 3, True), (9, 3, True)])
async def test_a_step_is_attempted_until_it_succeeds(attempts: int, calls: int, *, ok: bool) -> None:
    for through_tool in (True, False):
        flaky = Flaky(failures=2)
        chain = build_chain(
            build_registry(make_entry(flaky, "flaky")), ChainStep("flaky", attempts=attempts, backoff=0)
        )
        succeeded = (await run(chain.as_tool("chain"))).success if through_tool else chain.execute().success
        assert (flaky.calls, succeeded) == (calls, ok)


def test_the_wait_before_each_further_attempt_doubles_up_to_a_minute() -> None:
    assert list(ChainStep("t").list_waits()) == [0]
    assert list(ChainStep("t", attempts=9).list_waits()) == [0, 1, 2, 4, 8, 16, 32, 60, 60]
    assert list(ChainStep("t", attempts=3, backoff=0.25).list_waits()) == [0, 0.25, 0.5]


async def test_invalid_arguments_and_unknown_tools_are_not_attempted_again(registry: ToolRegistry) -> None:
    step = ChainStep("add", {"a": "x", "b": "y"}, attempts=5, backoff=1000)
    with anyio.fail_after(TIMEOUT):
        result = await run(build_chain(registry, step).as_tool("chain", input_schema={}))
        assert result.code == "invalid_arguments"
        assert not build_chain(registry, step).execute().success
        unknown = ChainStep("gone", attempts=5, backoff=1000)
        assert not build_chain(registry, unknown).execute(validate_tools=False).success


@BOTH_LOOPS
async def test_a_step_that_takes_too_long_is_stopped_and_its_error_names_it() -> None:
    async def sleep(data: Any) -> None:
        await anyio.sleep_forever()

    flaky = Flaky(failures=0)
    registry = build_registry(make_entry(sleep, "sleep"), make_entry(flaky, "flaky"))
    chain = build_chain(registry, ChainStep("sleep", timeout=0.05, attempts=2, backoff=0), ChainStep("flaky"))
    result = await run(chain.as_tool("chain"))
    assert result.code == "timeout"
    assert result.error_text.startswith("Step 1 of 2 ('sleep') failed: ")
    assert "0.05 seconds" in result.error_text
    assert flaky.calls == 0
    chain = build_chain(registry, ChainStep("sleep", timeout=0.05, continue_on_failure=True), ChainStep("flaky"))
    assert (await run(chain.as_tool("chain"))).output == {"calls": 1}


@BOTH_LOOPS
async def test_the_error_of_a_step_in_a_thread_reports_that_it_may_still_finish() -> None:
    release = threading.Event()

    def wait(data: Any) -> None:
        release.wait(TIMEOUT)

    try:
        chain = build_chain(build_registry(make_entry(wait, "wait")), ChainStep("wait", timeout=0.05))
        result = await run(chain.as_tool("chain"))
    finally:
        release.set()
    assert "'wait' did not finish within 0.05 seconds. It cannot be stopped, and may still finish." in result.error_text


@BOTH_LOOPS
async def test_the_time_limit_of_the_call_ends_a_chain_whose_step_may_take_longer() -> None:
    async def sleep(data: Any) -> None:
        await anyio.sleep_forever()

    chain = build_chain(build_registry(make_entry(sleep, "sleep")), ChainStep("sleep", timeout=1000))
    result = await run(chain.as_tool("chain"), timeout=0.05)
    assert result.code == "timeout"
    assert "chain" in result.error_text


@ERAS
async def test_the_time_limit_of_a_step_pauses_while_the_user_is_asked(mode: str) -> None:
    async def ask(data: Any, ctx: CallContext) -> Any:
        return dict((await ctx.ask("Who?", {"type": "object", "properties": {"name": {"type": "string"}}})).content)

    async def answer_late(context: Any, params: Any) -> Any:
        # This is longer than the time limit of the step.
        await anyio.sleep(1.2)
        return ElicitResult(action="accept", content={"name": "Ada"})

    chain = build_chain(build_registry(make_entry(ask, "ask")), ChainStep("ask", timeout=1))
    async with connect(build_registry(chain.as_tool("chain")), mode=mode, elicitation_callback=answer_late) as client:
        assert (await call(client, "chain"))["structuredContent"] == {"name": "Ada"}


@pytest.mark.parametrize("is_async", [True, False])
def test_execute_abandons_a_step_that_takes_too_long(*, is_async: bool) -> None:
    release = threading.Event()

    def wait(data: Any) -> None:
        release.wait(TIMEOUT)

    async def wait_async(data: Any) -> None:
        await anyio.to_thread.run_sync(wait, data)

    registry = build_registry(make_entry(wait_async if is_async else wait, "wait"))
    result = build_chain(registry, ChainStep("wait", timeout=0.05)).execute()
    release.set()
    assert [step.status for step in result.step_results] == [ResultStatus.TIMEOUT]
    message = "Tool 'wait' did not finish within 0.05 seconds."
    assert result.errors == [message, f"Step 0 ('wait') failed: {message}"]


def test_execute_returns_what_a_step_with_a_time_limit_returns(registry: ToolRegistry) -> None:
    chain = build_chain(registry, ChainStep("add", {"a": "x", "b": "x"}, "y", timeout=TIMEOUT))
    assert chain.execute({"x": 2}).context == {"x": 2, "y": 4}

    def leave(data: Any) -> None:
        raise SystemExit(3)

    registry.register(make_entry(leave, "leave"))
    with pytest.raises(SystemExit):
        build_chain(registry, ChainStep("leave", timeout=TIMEOUT)).execute()


@pytest.mark.parametrize("wrong", [{"attempts": 0}, {"backoff": -1}, {"timeout": 0}, {"timeout": -1}])
def test_an_invalid_policy_of_a_step_is_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ChainStep("t", **wrong)


def test_a_policy_is_in_the_dictionary_of_a_step_if_it_is_set() -> None:
    assert ChainStep("t", attempts=3, timeout=2.5).to_dict() == {
        **{"tool_name": "t", "input_mapping": {}, "output_key": ""},
        **{"attempts": 3, "timeout": 2.5},
    }


# Chains in the tool_use API


@pytest.mark.parametrize("policy", [{}, {"timeout": TIMEOUT}])
def test_a_chain_that_is_a_tool_can_be_invoked_and_be_a_step_of_another(
    registry: ToolRegistry, policy: dict[str, Any]
) -> None:
    optional = ChainStep("fail", continue_on_failure=True)
    chain = build_chain(registry, optional, *build_word_count_chain(registry).steps)
    registry.register(build_word_count_chain(registry).as_tool("plain", output="total"))
    registry.register(chain.as_tool("tolerant", output=["total"]))
    registry.register(build_chain(registry, ChainStep("fail")).as_tool("failing"))
    assert registry.invoke("plain", {}).data == 3
    assert registry.invoke("tolerant", {}).data == {"total": 3}
    assert registry.invoke("failing", {}).message.startswith("Tool 'failing' raised an exception: Step 1 of 1 ('fail')")
    outer = build_chain(registry, ChainStep("plain", output_key="a", **policy), ChainStep("tolerant", **policy))
    assert outer.execute().context == {"a": 3, "total": 3}
