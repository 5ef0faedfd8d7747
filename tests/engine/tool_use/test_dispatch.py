"""`dispatch` runs calls for servers. Failures are results with a code, never exceptions."""

import asyncio
import contextvars
import re

import anyio
import anyio.lowlevel
import pytest

from mcp_bridge import CallContext, ToolEntry, ToolError, ToolResult
from mcp_bridge._contracts.errors import CallError, ToolNotFound
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS
from tests.kits.wire.speaking import build_registry

NUMBER = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
SECRET = "password=hunter2"


def make_entry(handler, name="t", **fields):
    return ToolEntry(name, "", handler, **fields)


async def dispatch(item, arguments=None, ctx=None):
    call = ToolCall(id="7", name=item.name, arguments={} if arguments is None else arguments)
    return await build_registry(item).dispatch(call, RunningCall() if ctx is None else ctx)


async def reading(data):
    await anyio.lowlevel.checkpoint()
    return data


# Success


@pytest.mark.parametrize(
    "handler", [lambda data: data["n"] * 2, lambda data: reading(data["n"] * 2)], ids=["sync", "async"]
)
async def test_a_successful_call_gives_its_output(handler):
    result = await dispatch(make_entry(handler, input_schema=NUMBER, output_schema={"type": "integer"}), {"n": 21})
    assert isinstance(result, ToolResult)
    assert (result.success, result.is_error) == (True, False)
    assert result.output == 42
    assert result.code is None
    assert result.error_text == ""


async def test_a_changed_handler_and_schema_of_an_entry_apply_to_the_next_call():
    live = make_entry(lambda data: "old", input_schema=NUMBER)
    registry, call = build_registry(live), ToolCall(id="7", name="t", arguments={"n": 1})
    assert (await registry.dispatch(call, RunningCall())).output == "old"
    live.handler = lambda data: "new"
    assert (await registry.dispatch(call, RunningCall())).output == "new"
    live.input_schema = {"type": "object", "required": ["m"]}
    assert (await registry.dispatch(call, RunningCall())).code == "invalid_arguments"


@pytest.mark.parametrize("value", [None, 0, "", [], {"a": None}])
async def test_a_falsy_output_is_returned_unchanged(value):
    result = await dispatch(make_entry(lambda data: value))
    assert result.success
    assert result.output == value


async def test_a_failure_that_the_tool_returns_passes_verbatim():
    result = await dispatch(
        make_entry(lambda data: ToolResult(success=False, error="no such city, try Bonn", output={"n": 1}))
    )
    assert result.success is False
    assert result.error_text == "no such city, try Bonn"
    assert result.output == {"n": 1}


async def test_a_success_that_the_tool_returns_keeps_its_output():
    result = await dispatch(make_entry(lambda data: ToolResult(output={"n": 1}), output_schema=NUMBER))
    assert result.success is True
    assert result.output == {"n": 1}


# Unknown tools


async def test_an_unknown_name_that_is_very_long_is_not_compared_and_not_repeated():
    call = ToolCall(id="7", name="t" * 4_000_000, arguments={})
    with pytest.raises(ToolNotFound) as error:
        await build_registry(make_entry(reading)).dispatch(call, RunningCall())
    assert str(error.value) == f"Unknown tool: {'t' * 256}... (4000000 characters)."


async def test_an_unknown_tool_raises():
    with pytest.raises(ToolNotFound) as caught:
        await build_registry(make_entry(reading)).dispatch(ToolCall(id="1", name="zzz"), RunningCall())
    assert "zzz" in str(caught.value)
    assert caught.value.code == "tool_not_found"


# Bad arguments


async def test_bad_arguments_are_a_result_with_a_line_for_each_problem():
    result = await dispatch(
        make_entry(AssertionError("reached").with_traceback, input_schema=NUMBER), {"n": "x", "b": 1, "a": 2}
    )
    assert (result.success, result.is_error) == (False, True)
    assert result.code == "invalid_arguments"
    for line in (
        "$.n: expected type integer, got str",
        "$.a: additional property not allowed",
        "$.b: additional property not allowed",
    ):
        assert line in result.error_text


async def test_bad_arguments_never_reach_the_tool():
    reached = []
    result = await dispatch(make_entry(reached.append, input_schema=NUMBER), {})
    assert result.code == "invalid_arguments"
    assert "$.n: required field missing" in result.error_text
    assert reached == []


async def test_keywords_beyond_the_seeds_are_checked_too():
    schema = {"type": "object", "properties": {"n": {"anyOf": [{"type": "string", "pattern": "^a"}, {"type": "null"}]}}}
    reached = []
    result = await dispatch(make_entry(reached.append, input_schema=schema), {"n": "b"})
    assert result.code == "invalid_arguments"
    assert "$.n: " in result.error_text
    assert reached == []


# Exceptions


def make_raising_handler(error):
    def handler(data):
        raise error

    return handler


def make_async_raising_handler(error):
    async def handler(data):
        await anyio.lowlevel.checkpoint()
        raise error

    return handler


@pytest.fixture(params=[make_raising_handler, make_async_raising_handler], ids=["sync", "async"])
def raising(request):
    return request.param


def get_all_text(result):
    return f"{result.error!r} {result.output!r} {result.content!r} {result.meta!r}"


@pytest.mark.parametrize(
    "error", [RuntimeError(SECRET), KeyError(SECRET), OSError(5, SECRET), ExceptionGroup(SECRET, [OSError()])]
)
async def test_an_exception_is_an_internal_error_without_its_text(raising, error):
    result = await dispatch(make_entry(raising(error)))
    assert (result.success, result.is_error) == (False, True)
    assert result.code == "internal_error"
    assert SECRET not in get_all_text(result)
    assert "hunter2" not in get_all_text(result)


async def test_the_log_has_the_traceback_under_the_reference_that_is_shown(raising, caplog):
    result = await dispatch(make_entry(raising(RuntimeError(SECRET))))
    [reference] = re.findall(r"reference (\w[\w-]*)", result.error_text)
    assert reference in caplog.text
    assert SECRET in caplog.text
    assert "Traceback" in caplog.text


async def test_every_internal_error_has_another_reference(raising):
    texts = {(await dispatch(make_entry(raising(RuntimeError("x"))))).error_text for _ in range(5)}
    assert len(texts) == 5


async def test_an_exit_in_a_tool_does_not_leave_the_server(raising):
    result = await dispatch(make_entry(raising(SystemExit(3))))
    assert result.code == "internal_error"


@BOTH_LOOPS
async def test_a_cancellation_that_a_tool_raises_itself_is_a_failure(raising):
    result = await dispatch(make_entry(raising(asyncio.CancelledError())))
    assert result.success is False
    assert result.code == "internal_error"


@BOTH_LOOPS
async def test_a_real_cancellation_passes():
    ends = []

    async def wait_forever(data):
        try:
            scope.cancel()
            await anyio.sleep_forever()
        finally:
            ends.append(True)

    with anyio.CancelScope() as scope:
        await dispatch(make_entry(wait_forever))
        raise AssertionError("a cancelled call must not answer")
    assert scope.cancelled_caught
    assert ends == [True]


async def test_a_failed_call_leaves_the_tool_usable():
    registry = build_registry(make_entry(lambda data: 1 // data["n"], input_schema=NUMBER))

    async def code_of(n):
        return (await registry.dispatch(ToolCall(id="1", name="t", arguments={"n": n}), RunningCall())).code

    assert [await code_of(n) for n in (0, "x", 1)] == ["internal_error", "invalid_arguments", None]


# What authors say on purpose


async def test_the_text_and_code_of_a_tool_error_pass_verbatim(raising):
    result = await dispatch(make_entry(raising(ToolError("city: no such place\ntry 'Bonn'", code="unknown_city"))))
    assert (result.success, result.is_error) == (False, True)
    assert result.error_text == "city: no such place\ntry 'Bonn'"
    assert result.code == "unknown_city"


async def test_a_tool_error_has_the_default_code_unless_another_is_passed(raising):
    result = await dispatch(make_entry(raising(ToolError("no"))))
    assert result.code == "tool_error"
    assert result.error_text == "no"


async def test_the_details_of_a_tool_error_are_shown(raising):
    result = await dispatch(make_entry(raising(ToolError("no", details=["first", "second"]))))
    assert result.error_text.startswith("no")
    assert "first" in result.error_text
    assert "second" in result.error_text


async def test_a_subclass_of_tool_error_keeps_its_code(raising):
    class Busy(ToolError):
        code = "busy"

    assert (await dispatch(make_entry(raising(Busy("later"))))).code == "busy"


def test_a_tool_error_is_one_of_the_call_errors():
    assert issubclass(ToolError, CallError)


# Bad output


@pytest.mark.parametrize("handler", [lambda data: {"n": "x"}, lambda data: reading({"n": "x"})], ids=["sync", "async"])
async def test_invalid_output_is_a_failure_that_keeps_the_data(handler):
    result = await dispatch(make_entry(handler, output_schema=NUMBER))
    assert (result.success, result.is_error) == (False, True)
    assert result.code == "invalid_output"
    assert result.output == {"n": "x"}
    assert "$.n: expected type integer, got str" in result.error_text


async def test_without_an_output_schema_no_output_is_bad():
    assert (await dispatch(make_entry(lambda data: {1: b"x"}))).success


# The context


async def test_a_tool_that_asks_for_the_context_gets_the_one_of_its_call():
    def who(data, ctx: CallContext):
        return (data["n"], ctx.principal)

    result = await dispatch(make_entry(who, input_schema=NUMBER), {"n": 1}, RunningCall(principal="ann"))
    assert result.output == (1, "ann")


async def test_the_parameter_of_the_context_may_have_any_name():
    async def who(data, *, running: CallContext):
        return running.principal

    assert (await dispatch(make_entry(who), ctx=RunningCall(principal="ann"))).output == "ann"


async def test_in_process_a_tool_gets_a_context_without_a_client():
    async def report(data, ctx: CallContext):
        await ctx.report_progress(1, 2, "half")
        return (ctx.principal, ctx.protocol_version)

    registry = build_registry(make_entry(report))
    assert (await registry.ainvoke("t", {})).data == (None, "")
    assert registry.invoke("t", {}).data == (None, "")


async def test_a_tool_can_call_another_one_through_its_context():
    async def outer(data, ctx: CallContext):
        inner = await ctx.invoke("inner", data)
        return {"code": inner.code, "output": inner.output}

    registry = build_registry(
        make_entry(outer, "outer"), make_entry(lambda data: data["n"] + 1, "inner", input_schema=NUMBER)
    )
    ctx = RunningCall(caller=registry)

    async def answer(arguments):
        return (await registry.dispatch(ToolCall(id="1", name="outer", arguments=arguments), ctx)).output

    assert await answer({"n": 1}) == {"code": None, "output": 2}
    assert await answer({"n": "x"}) == {"code": "invalid_arguments", "output": None}


async def test_a_sync_handler_sees_the_context_variables_of_its_caller():
    tenant = contextvars.ContextVar("tenant", default="no tenant")
    tenant.set("ann")
    assert (await dispatch(make_entry(lambda data: tenant.get()))).output == "ann"


# Side by side


async def test_a_sync_handler_that_waits_does_not_hold_up_the_others():
    import threading

    release_order = threading.Event()
    registry = build_registry(
        make_entry(lambda data: release_order.wait(60), "wait"), make_entry(lambda data: release_order.set(), "release")
    )
    answers = {}

    async def call(name):
        answers[name] = (await registry.dispatch(ToolCall(id=name, name=name, arguments={}), RunningCall())).output

    with anyio.fail_after(TIMEOUT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, "wait")
            tasks.start_soon(call, "release")
    assert answers == {"wait": True, "release": None}


async def test_both_doors_end_in_the_same_handler():
    registry = build_registry(make_entry(lambda data: data["n"] * 2, input_schema=NUMBER))
    dispatched = await registry.dispatch(ToolCall(id="1", name="t", arguments={"n": 4}), RunningCall())
    assert dispatched.output == registry.invoke("t", {"n": 4}).data == (await registry.ainvoke("t", {"n": 4})).data == 8
