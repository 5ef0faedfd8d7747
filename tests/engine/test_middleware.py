"""Middleware: its order, and its possible changes of a call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import pytest

from mcp_bridge import (
    CallContext,
    ChainStep,
    Middleware,
    Text,
    ToolCall,
    ToolChain,
    ToolEntry,
    ToolRegistry,
    ToolResult,
)
from mcp_bridge._contracts.errors import Denied
from mcp_bridge._contracts.policy import CallNext
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._engine.prepared import PreparedEntry
from mcp_bridge.middleware import Pipeline, Stage
from mcp_bridge.testing import connect
from tests.kits.loops import BOTH_LOOPS
from tests.kits.wire.speaking import NOTHING, call, get_text, make_entry, raise_error

STAGES = pytest.mark.parametrize("stage", list(Stage), ids=lambda stage: stage.name)
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


@dataclass
class At:
    """A middleware made from a function."""

    stage: Stage
    act: Callable[[ToolCall, CallContext, CallNext], Awaitable[Any]]

    async def __call__(self, call: ToolCall, ctx: CallContext, call_next: CallNext) -> Any:
        return await self.act(call, ctx, call_next)


@dataclass
class Recorder:
    """Writes down when a call comes in and goes out."""

    stage: Stage
    log: list[str]
    name: str = ""
    results: list[ToolResult] = field(default_factory=list)

    async def __call__(self, call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolResult:
        name = self.name or self.stage.name
        self.log.append(f"> {name}")
        result = await call_next(call, ctx)
        self.log.append(f"< {name}")
        self.results.append(result)
        return result


def build_registry(middleware: list[Middleware], *entries: ToolEntry, **options: Any) -> ToolRegistry:
    registry = ToolRegistry(pipeline=Pipeline(middleware, **options))
    for entry in entries:
        registry.register(entry)
    return registry


async def dispatch(registry: ToolRegistry, arguments: Any = None, name: str = "t") -> ToolResult:
    made = ToolCall(id="1", name=name, arguments={} if arguments is None else arguments)
    return await registry.dispatch(made, RunningCall())


def list_names(layers: list[Any]) -> list[str]:
    return [getattr(getattr(layer, "func", layer), "__name__", "middleware") for layer in layers]


def test_the_layers_without_middleware_are_those_of_the_architecture() -> None:
    tool = PreparedEntry(make_entry(print))
    assert list_names(Pipeline().layers(tool)) == [
        "_map_errors",
        "_validate_input",
        "_limit_calls",
        "_limit_time",
        "_run_handler",
    ]


def test_layers_that_would_do_nothing_for_a_tool_are_left_out() -> None:
    plain, declaration = PreparedEntry(make_entry(print)), PreparedEntry(make_entry(print, output_schema=NUMBER))
    assert "_validate_output" not in list_names(Pipeline().layers(plain))
    assert "_validate_output" in list_names(Pipeline().layers(declaration))
    assert "_limit_time" not in list_names(Pipeline(timeout=None).layers(plain))


def test_the_layers_with_middleware_have_each_stage_in_its_place() -> None:
    log: list[str] = []
    stages = {stage: Recorder(stage, log) for stage in Stage}
    layers = Pipeline([stages[stage] for stage in reversed(Stage)]).layers(PreparedEntry(make_entry(print)))
    names = [layer.stage.name if isinstance(layer, Recorder) else list_names([layer])[0] for layer in layers]
    assert names == [
        "_map_errors", "_recheck_output", "OBSERVE",
        "_map_errors", "_recheck_output", "ADMIT",
        "_validate_input", "_provide_checks", "DECIDE", "_map_unexpected_errors", "ATTEMPT", "_validate_input",
        "_limit_calls", "_limit_time", "_run_handler",
    ]  # fmt: skip


async def test_middleware_runs_in_the_order_of_stages_and_then_as_listed() -> None:
    log: list[str] = []
    middleware = [Recorder(stage, log) for stage in reversed(Stage)] + [Recorder(Stage.DECIDE, log, "second")]
    registry = build_registry([*middleware], make_entry(lambda data: log.append("the tool")))
    async with connect(registry) as client:
        await call(client)
    inwards = ["OBSERVE", "ADMIT", "DECIDE", "second", "ATTEMPT"]
    assert log == [*(f"> {name}" for name in inwards), "the tool", *(f"< {name}" for name in reversed(inwards))]


async def test_a_stage_can_be_a_number() -> None:
    async def deny(call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolResult:
        raise Denied("no")

    assert (await dispatch(build_registry([At(3, deny)], make_entry(lambda data: 1)))).code == "denied"  # type: ignore[arg-type]


async def test_invalid_arguments_reach_only_admission_and_observers() -> None:
    log: list[str] = []
    middleware = [Recorder(stage, log) for stage in Stage]
    registry = build_registry([*middleware], make_entry(lambda data: log.append("the tool"), input_schema=NUMBER))
    assert (await dispatch(registry, {"n": "x"})).code == "invalid_arguments"
    assert log == ["> OBSERVE", "> ADMIT", "< OBSERVE"]


@pytest.mark.parametrize("stage", [Stage.DECIDE, Stage.ATTEMPT])
async def test_arguments_that_a_decider_changed_are_checked_again(stage: Stage) -> None:
    async def change(call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolResult:
        return await call_next(replace(call, arguments=arguments), ctx)

    reached: list[Any] = []
    registry = build_registry([At(stage, change)], make_entry(reached.append, input_schema=NUMBER))
    arguments: dict[str, Any] = {"n": 2}
    assert (await dispatch(registry, {"n": 1})).success
    arguments = {"n": "two"}
    result = await dispatch(registry, {"n": 1})
    assert result.code == "invalid_arguments"
    assert reached == [{"n": 2}]


@STAGES
async def test_a_result_that_a_policy_changed_so_that_it_no_longer_fits_is_an_error_that_names_it(stage: Stage) -> None:
    async def redact(call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolResult:
        return replace(await call_next(call, ctx), output={"n": "[redacted]"})

    registry = build_registry([At(stage, redact)], make_entry(lambda data: {"n": 1}, output_schema={**NUMBER}))
    result = await dispatch(registry)
    assert result.code == "invalid_output"
    assert "The tool did run, but the policy 'At' changed its result." in result.error_text
    assert "$.n: expected type integer" in result.error_text
    assert result.output == {"n": "[redacted]"}
    assert result.duration_ms is not None


async def test_the_policy_that_made_the_result_invalid_is_named() -> None:
    class Spoils(At):
        """A policy with a different name."""

    async def spoil(call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolResult:
        return replace(await call_next(call, ctx), output="spoilt")

    async def leave(call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolResult:
        return await call_next(call, ctx)

    policies = [At(Stage.DECIDE, leave), Spoils(Stage.DECIDE, spoil), At(Stage.DECIDE, leave), At(Stage.ADMIT, leave)]
    result = await dispatch(build_registry([*policies], make_entry(lambda data: {"n": 1}, output_schema=NUMBER)))
    assert "the policy 'Spoils' changed its result" in result.error_text


@STAGES
async def test_a_result_that_a_policy_changed_is_returned_if_it_matches_the_schema(stage: Stage) -> None:
    async def change(call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolResult:
        return replace(await call_next(call, ctx), output={"n": 2})

    result = await dispatch(
        build_registry([At(stage, change)], make_entry(lambda data: {"n": 1}, output_schema=NUMBER))
    )
    assert (result.output, result.content) == ({"n": 2}, None)


async def test_content_of_a_policy_is_kept_in_the_error() -> None:
    async def change(call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolResult:
        return replace(await call_next(call, ctx), output=3, content=[Text("three")])

    result = await dispatch(
        build_registry([At(Stage.DECIDE, change)], make_entry(lambda data: {"n": 1}, output_schema=NUMBER))
    )
    assert (result.code, result.content) == ("invalid_output", [Text("three")])


@STAGES
async def test_an_output_that_a_policy_returns_is_json_for_clients(stage: Stage) -> None:
    async def change(call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolResult:
        return replace(await call_next(call, ctx), output={"s": {1}, "b": b"x"})

    async with connect(build_registry([At(stage, change)], make_entry(lambda data: 1))) as client:
        assert (await call(client))["structuredContent"] == {"s": [1], "b": "eA=="}


@STAGES
async def test_a_middleware_that_raises_is_an_internal_error_with_a_reference(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolResult:
        await call_next(call, ctx)
        raise RuntimeError("planted secret")

    async with connect(build_registry([At(stage, fail)], make_entry(lambda data: "x"))) as client:
        result = await call(client)
    assert result["isError"] is True
    assert result["_meta"]["mcp-bridge/code"] == "internal_error"
    assert "planted secret" not in str(result)
    assert "planted secret" in caplog.text


@pytest.mark.parametrize(("stage", "answer"), [*((stage, None) for stage in Stage), (Stage.DECIDE, 3)])
async def test_a_middleware_that_answers_no_result_does_not_break_the_call(stage: Stage, answer: Any) -> None:
    async def odd(call: ToolCall, ctx: CallContext, call_next: CallNext) -> Any:
        return answer

    result = await dispatch(build_registry([At(stage, odd)], make_entry(lambda data: "x")))
    assert isinstance(result, ToolResult)
    assert result.output == answer


@pytest.mark.parametrize(
    ("handler", "code"),
    [
        (lambda data: raise_error(SystemExit(1)), "internal_error"),
        (lambda data: raise_error(Denied("no")), "denied"),
        (lambda data: "not a number", "invalid_output"),
        (lambda data: ToolResult(success=False, error="no"), None),
    ],
)
async def test_observers_see_results_and_never_exceptions(handler: Callable[[Any], Any], code: str | None) -> None:
    observer = Recorder(Stage.OBSERVE, [])
    await dispatch(build_registry([observer], make_entry(handler, output_schema={"type": "number"})))
    [observations] = observer.results
    assert observations.is_error
    assert observations.code == code
    assert observations.duration_ms is not None


async def test_admission_and_deciders_see_exceptions_as_they_are() -> None:
    observations: list[type[BaseException]] = []

    async def look(call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolResult:
        try:
            return await call_next(call, ctx)
        except BaseException as error:
            observations.append(type(error))
            raise

    registry = build_registry(
        [At(stage, look) for stage in (Stage.ADMIT, Stage.DECIDE)], make_entry(lambda data: raise_error(Denied("no")))
    )
    assert (await dispatch(registry)).code == "denied"
    assert observations == [Denied, Denied]


@BOTH_LOOPS
async def test_each_attempt_has_a_separate_deadline() -> None:
    attempts: list[float | None] = []

    async def retry(call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolResult:
        try:
            return await call_next(call, ctx)
        except Exception:
            return await call_next(call, ctx)

    async def flaky(data: Any, ctx: CallContext) -> str:
        attempts.append(ctx.deadline)
        if len(attempts) == 1:
            await anyio.sleep_forever()
        return "second"

    result = await dispatch(build_registry([At(Stage.ATTEMPT, retry)], make_entry(flaky), timeout=1.0))
    assert result.output == "second"
    first, second = attempts
    assert first is not None
    assert second is not None
    assert first < second


async def test_a_policy_may_answer_without_the_tool() -> None:
    async def cached(call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolResult:
        return ToolResult(output="from the cache")

    result = await dispatch(
        build_registry([At(Stage.DECIDE, cached)], make_entry(lambda data: raise_error(AssertionError())))
    )
    assert result.output == "from the cache"


async def test_nested_calls_and_chains_of_other_registries_are_under_the_same_policy() -> None:
    observations: list[str] = []

    async def watch(call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolResult:
        observations.append(call.name)
        if call.name == "forbidden":
            raise Denied("not this one")
        return await call_next(call, ctx)

    async def outer(data: Any, ctx: CallContext) -> Any:
        return [(await ctx.invoke(name, {})).code for name in ("allowed", "forbidden")]

    second_registry = ToolRegistry()
    for name in ("allowed", "forbidden"):
        second_registry.register(make_entry(lambda data: {}, name, input_schema=NOTHING))
    chain = ToolChain(second_registry).add_step(ChainStep("allowed")).add_step(ChainStep("forbidden"))
    registry = build_registry(
        [At(Stage.ADMIT, watch)], make_entry(outer, "outer"), chain.as_tool("chain"), *second_registry.list()
    )
    async with connect(registry) as client:
        assert get_text(await call(client, "outer")) == '[null,"denied"]'
        failure = await call(client, "chain")
    assert observations == ["outer", "allowed", "forbidden", "chain", "allowed", "forbidden"]
    assert "Step 2 of 2 ('forbidden') failed: not this one" in get_text(failure)
    assert failure["_meta"]["mcp-bridge/code"] == "denied"


def test_an_object_with_a_stage_and_a_call_is_a_middleware() -> None:
    assert isinstance(Recorder(Stage.OBSERVE, []), Middleware)
    assert list(Stage) == sorted(Stage)
