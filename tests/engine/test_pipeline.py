"""The order of one call: which checks run when, and where a call can end."""

from __future__ import annotations

import asyncio
import functools
import logging
import re
import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest

from mcp_bridge import CallContext, ChainStep, ToolChain, ToolEntry, ToolError, ToolRegistry, ToolResult
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall
from mcp_bridge._engine.pipeline import ToolLimits
from mcp_bridge.middleware import Pipeline
from mcp_bridge.testing import connect
from tests.kits.constants import STATELESS, TIMEOUT
from tests.kits.loops import BOTH_LOOPS
from tests.kits.wire.speaking import ERAS, build_registry, call, get_text, make_entry, raise_error

SECRET = "hunter2"
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


def build_pipeline_registry(pipeline: Pipeline, *entries: ToolEntry) -> ToolRegistry:
    registry = ToolRegistry(pipeline=pipeline)
    for entry in entries:
        registry.register(entry)
    return registry


async def dispatch(registry: ToolRegistry, name: str = "t", arguments: Any = None, **ctx: Any) -> ToolResult:
    made = ToolCall(id="1", name=name, arguments={} if arguments is None else arguments)
    return await registry.dispatch(made, RunningCall(**ctx))


def make_handler(kind: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    async def awaited(data: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        return function(data)

    return {"sync": function, "async": awaited, "returns a coroutine": lambda data: awaited(data)}[kind]


# What a tool may raise


class Rude(BaseException):
    """Not an Exception."""


RAISED: list[Callable[[], BaseException]] = [
    lambda: ValueError(SECRET),
    lambda: SystemExit(SECRET),
    lambda: KeyboardInterrupt(SECRET),
    lambda: StopIteration(SECRET),
    lambda: StopAsyncIteration(SECRET),
    lambda: GeneratorExit(SECRET),
    lambda: RecursionError(SECRET),
    lambda: Rude(SECRET),
    lambda: ExceptionGroup(SECRET, [ValueError(SECRET)]),
    lambda: BaseExceptionGroup(SECRET, [Rude(SECRET), SystemExit(1)]),
    lambda: asyncio.CancelledError(SECRET),
    lambda: BaseExceptionGroup(SECRET, [asyncio.CancelledError(SECRET), ValueError(SECRET)]),
]


@pytest.mark.parametrize(
    ("handler_type", "make"),
    [
        *(("sync", make) for make in RAISED),
        *(("async", make) for make in RAISED),
        ("returns a coroutine", RAISED[0]),
        ("returns a coroutine", RAISED[1]),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value()).__name__,
)
async def test_whatever_a_tool_raises_is_an_internal_error_and_the_next_call_works(
    handler_type: str, make: Callable[[], BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    registry = build_registry(
        make_entry(make_handler(handler_type, lambda data: raise_error(make()))),
        make_entry(make_handler(handler_type, lambda data: "fine"), "u"),
    )
    result = await dispatch(registry)
    assert (await dispatch(registry, "u")).output == "fine"
    assert (result.is_error, result.code) == (True, "internal_error")
    assert SECRET not in str(result)
    [reference] = re.findall(r"reference (\w+)", result.error_text)
    [record] = [record for record in caplog.records if reference in record.getMessage()]
    assert record.levelno == logging.ERROR
    assert record.exc_info


@ERAS
async def test_clients_get_the_reference_of_an_internal_error_and_not_its_text(mode: str) -> None:
    registry = build_registry(make_entry(lambda data: raise_error(SystemExit(SECRET))))
    async with connect(registry, mode=mode) as client:
        result = await call(client)
    assert result["isError"] is True
    assert result["_meta"]["mcp-bridge/code"] == "internal_error"
    assert re.findall(r"reference (\w+)", get_text(result))
    assert SECRET not in str(result)


async def test_a_recursion_without_end_is_an_internal_error() -> None:
    def deeper(data: Any) -> Any:
        return deeper(data)

    registry = build_registry(make_entry(deeper), make_entry(lambda data: "fine", "u"))
    assert (await dispatch(registry)).code == "internal_error"
    assert (await dispatch(registry, "u")).output == "fine"


async def test_texts_of_exceptions_are_shown_only_with_expose_errors() -> None:
    entry = make_entry(lambda data: raise_error(LookupError(SECRET)))
    hidden, listing = [
        await dispatch(build_pipeline_registry(Pipeline(expose_errors=expose), entry)) for expose in (False, True)
    ]
    assert SECRET not in str(hidden)
    assert "LookupError" not in str(hidden)
    assert f"LookupError: {SECRET}" in listing.error_text


@pytest.mark.parametrize(("handler_type", "mode"), [("sync", "legacy"), ("async", STATELESS)])
async def test_the_text_of_a_tool_error_is_returned_verbatim(handler_type: str, mode: str) -> None:
    registry = build_registry(
        make_entry(
            make_handler(handler_type, lambda data: raise_error(ToolError("city: unknown\n  try 'Bonn'", code="city"))),
            "raised",
        ),
        make_entry(
            make_handler(handler_type, lambda data: ToolResult(success=False, error="no: «x»", code="mine")), "returned"
        ),
    )
    async with connect(registry, mode=mode) as client:
        error, returned = await call(client, "raised"), await call(client, "returned")
    assert (get_text(error), error["_meta"]["mcp-bridge/code"]) == ("city: unknown\n  try 'Bonn'", "city")
    assert (get_text(returned), returned["_meta"]["mcp-bridge/code"]) == ("no: «x»", "mine")


# Cancellation


@BOTH_LOOPS
@pytest.mark.parametrize("handler_type", ["async", "returns a coroutine"])
async def test_a_real_cancellation_passes_and_the_next_call_works(handler_type: str) -> None:
    starts, stops = anyio.Event(), anyio.Event()

    async def wait(data: Any) -> None:
        starts.set()
        try:
            await anyio.sleep_forever()
        finally:
            stops.set()

    handler = wait if handler_type == "async" else lambda data: wait(data)
    registry = build_registry(make_entry(handler), make_entry(lambda data: "fine", "u"))
    answers: list[ToolResult] = []

    async def calling() -> None:
        answers.append(await dispatch(registry))

    with anyio.fail_after(TIMEOUT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(calling)
            await starts.wait()
            tasks.cancel_scope.cancel()
        assert answers == []
        await stops.wait()
        assert (await dispatch(registry, "u")).output == "fine"


@BOTH_LOOPS
async def test_a_real_cancellation_does_not_wait_for_a_thread() -> None:
    starts, release = threading.Event(), threading.Event()
    registry = build_registry(
        make_entry(lambda data: (starts.set(), release.wait(TIMEOUT))), make_entry(lambda data: "fine", "u")
    )
    answers: list[ToolResult] = []

    async def calling() -> None:
        answers.append(await dispatch(registry))

    try:
        with anyio.fail_after(TIMEOUT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(calling)
                while not starts.is_set():
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
            assert answers == []
            assert (await dispatch(registry, "u")).output == "fine"
    finally:
        release.set()


@BOTH_LOOPS
async def test_a_cancellation_inside_a_group_passes_too() -> None:
    async def group(data: Any) -> None:
        try:
            scope.cancel()
            await anyio.lowlevel.checkpoint()
        except anyio.get_cancelled_exc_class() as error:
            raise BaseExceptionGroup("several", [error]) from None

    caught: list[BaseException] = []
    with anyio.CancelScope() as scope:
        try:
            await dispatch(build_registry(make_entry(group)))
        except BaseExceptionGroup as error:
            caught.append(error)
    assert len(caught) == 1


async def test_a_timeout_around_a_call_ends_it() -> None:
    async def outer(data: Any, ctx: CallContext) -> Any:
        return (await ctx.invoke("inner")).output

    async def inner(data: Any) -> None:
        await asyncio.sleep(TIMEOUT)

    registry = build_registry(make_entry(outer, "outer"), make_entry(inner, "inner"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await dispatch(registry, "outer")


async def test_a_call_whose_task_is_cancelled_has_no_result() -> None:
    starts = asyncio.Event()

    async def wait(data: Any) -> None:
        starts.set()
        await asyncio.sleep(TIMEOUT)

    calling = asyncio.create_task(dispatch(build_registry(make_entry(wait))))
    await starts.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling


@pytest.mark.parametrize("waits", [True, False])
async def test_a_tool_that_cancels_its_task_does_not_affect_other_calls(waits: bool) -> None:
    async def cancel(data: Any) -> str:
        own: Any = asyncio.current_task()
        own.cancel()
        if waits:
            await asyncio.sleep(0)
        return "cancelled"

    result = await dispatch(build_registry(make_entry(cancel)))
    assert (result.code, result.output) == (("internal_error", None) if waits else (None, "cancelled"))
    await asyncio.sleep(0)
    task: Any = asyncio.current_task()
    assert task.cancelling() == 0


# Deadlines


@BOTH_LOOPS
@ERAS
async def test_a_tool_that_takes_too_long_is_stopped_with_a_code(mode: str) -> None:
    stops: list[bool] = []

    async def slow(data: Any) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            stops.append(True)

    pipeline = Pipeline(timeout=0.01, tools={"u": ToolLimits(timeout=60)})
    registry = build_pipeline_registry(pipeline, make_entry(slow), make_entry(lambda data: "fine", "u"))
    async with connect(registry, mode=mode) as client:
        result = await call(client)
        assert get_text(await call(client, "u")) == "fine"
    assert stops == [True]
    assert result["_meta"]["mcp-bridge/code"] == "timeout"
    assert "0.01 seconds" in get_text(result)


@BOTH_LOOPS
async def test_a_thread_can_check_that_the_time_of_its_call_is_over() -> None:
    never = threading.Event()

    def poll(data: Any) -> None:
        while not never.wait(0.001):
            anyio.from_thread.check_cancelled()

    pipeline = Pipeline(timeout=0.01)
    assert (await dispatch(build_pipeline_registry(pipeline, make_entry(poll)))).code == "timeout"
    with anyio.fail_after(TIMEOUT):
        while pipeline.threads.busy_count:
            await anyio.lowlevel.checkpoint()


@BOTH_LOOPS
async def test_the_deadline_is_in_the_context_and_gone_afterwards() -> None:
    observations: list[float | None] = []

    async def look(data: Any, ctx: CallContext) -> None:
        observations.append(ctx.deadline)

    ctx = RunningCall()
    before = anyio.current_time()
    made = ToolCall(id="1", name="t", arguments={})
    await build_pipeline_registry(Pipeline(timeout=30), make_entry(look)).dispatch(made, ctx)
    assert ctx.deadline is None
    await build_pipeline_registry(Pipeline(timeout=None), make_entry(look)).dispatch(made, RunningCall())
    assert observations[0] is not None
    assert before + 30 <= observations[0] <= anyio.current_time() + 30
    assert observations[1] is None


@BOTH_LOOPS
async def test_a_nested_call_ends_by_the_deadline_of_the_outer_call_which_receives_the_error() -> None:
    observations: list[float | None] = []

    async def inner(data: Any, ctx: CallContext) -> None:
        observations.append(ctx.deadline)
        await anyio.sleep_forever()

    async def outer(data: Any, ctx: CallContext) -> Any:
        observations.append(ctx.deadline)
        return await ctx.invoke("inner")

    registry = build_pipeline_registry(Pipeline(timeout=1.0), make_entry(inner, "inner"), make_entry(outer, "outer"))
    result = await dispatch(registry, "outer")
    assert result.code == "timeout"
    assert "'outer'" in result.error_text
    assert observations[0] == observations[1]


# Checks


async def test_invalid_arguments_are_an_error_with_each_problem_and_the_tool_does_not_run() -> None:
    reached: list[Any] = []
    async with connect(build_registry(make_entry(reached.append, input_schema=NUMBER))) as client:
        result = await call(client, n="x", m=1)
    assert reached == []
    assert result["_meta"]["mcp-bridge/code"] == "invalid_arguments"
    assert "$.n: expected type integer, got str" in get_text(result)
    assert "$.m: additional property not allowed" in get_text(result)


async def test_an_answer_that_does_not_fit_is_a_failure_that_shows_it() -> None:
    entry = make_entry(lambda data: {"n": "x"}, output_schema=NUMBER)
    async with connect(build_registry(entry)) as client:
        result = await call(client)
    assert result["_meta"]["mcp-bridge/code"] == "invalid_output"
    assert "$.n: expected type integer" in get_text(result)
    assert '{"n":"x"}' in get_text(result)
    assert "structuredContent" not in result


async def test_an_error_of_the_tool_is_not_validated_by_its_output_schema() -> None:
    entry = make_entry(lambda data: ToolResult(success=False, error="no", output=3), output_schema=NUMBER)
    assert (await dispatch(build_registry(entry))).error_text == "no"


async def test_every_result_is_timed() -> None:
    good = await dispatch(build_registry(make_entry(lambda data: 1)))
    bad = await dispatch(build_registry(make_entry(lambda data: raise_error(ValueError()))))
    assert good.duration_ms is not None
    assert good.duration_ms >= 0
    assert bad.duration_ms is not None


# How handlers are called


class Callable1:
    async def __call__(self, data: Any) -> Any:
        return data["n"]

    def method(self, data: Any) -> Any:
        return data["n"]

    async def amethod(self, data: Any, ctx: CallContext) -> Any:
        return data["n"] if ctx.request_id == "r" else None


def context_first(ctx: CallContext, data: Any) -> Any:
    return data["n"] if ctx.request_id == "r" else None


async def keyword_context(data: Any, *, running: CallContext | None = None) -> Any:
    return data["n"] if running is not None and running.request_id == "r" else None


async def two(extra: int, data: Any) -> Any:
    return data["n"] + extra - extra


@pytest.mark.parametrize(
    "handler",
    [
        Callable1(),
        Callable1().method,
        Callable1().amethod,
        context_first,
        keyword_context,
        functools.partial(two, 1),
        functools.partial(functools.partial(keyword_context)),
        lambda data: data.get("n"),
    ],
    ids=["object", "method", "async method", "context first", "keyword context", "partial", "partial twice", "lambda"],
)
async def test_every_kind_of_callable_is_a_handler(handler: Callable[..., Any]) -> None:
    result = await dispatch(build_registry(make_entry(handler)), arguments={"n": 5}, request_id="r")
    assert result.output == 5, result.error


async def test_a_builtin_is_a_handler() -> None:
    assert (await dispatch(build_registry(make_entry(len)), arguments={"n": 5})).output == 1


# Calls made by calls


async def test_a_tool_outside_a_registry_cannot_call_others() -> None:
    ctx = RunningCall()
    assert ctx.tools() == ()
    with pytest.raises(RuntimeError, match="outside a registry"):
        await ctx.invoke("t")
    await ctx.report_progress(1)


async def test_a_tool_calls_another_by_name_and_sees_its_result() -> None:
    async def outer(data: Any, ctx: CallContext) -> Any:
        names = [entry.name for entry in ctx.tools()]
        good, bad = await ctx.invoke("inner", {"n": 1}), await ctx.invoke("inner", {})
        return {"names": names, "good": good.output, "bad": bad.code}

    inner = make_entry(lambda data: data["n"] + 1, "inner", input_schema=NUMBER)
    async with connect(build_registry(make_entry(outer, "outer"), inner)) as client:
        result = await call(client, "outer")
    assert result["structuredContent"] == {"names": ["inner", "outer"], "good": 2, "bad": "invalid_arguments"}


@BOTH_LOOPS
async def test_a_chain_of_another_registry_stays_under_the_policy_and_the_time_of_the_first_call() -> None:
    async def slow(data: Any) -> None:
        await anyio.sleep_forever()

    inner = build_pipeline_registry(Pipeline(timeout=None), make_entry(slow, "slow"))
    chain = ToolChain(inner).add_step(ChainStep("slow"))
    outer = build_pipeline_registry(Pipeline(timeout=0.05), chain.as_tool("chain"))
    with anyio.fail_after(TIMEOUT):
        assert (await dispatch(outer, "chain")).code == "timeout"
