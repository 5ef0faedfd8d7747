"""Tools control the process of their worker, but no message of it affects the bridge or the next call."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from mcp_bridge._contracts.errors import CallError, SourceError, ToolCrashed, ToolUnavailable
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.source import Offer, Source
from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._isolation.confinement import PlainProcess
from mcp_bridge._isolation.conversation import WorkerCall
from mcp_bridge._isolation.options import IsolationOptions
from mcp_bridge._isolation.order import WorkerOrder
from mcp_bridge._isolation.pool import WorkerPool
from mcp_bridge._isolation.process import FailedSource
from mcp_bridge._isolation.source import IsolatedSource
from tests.kits.constants import TIMEOUT
from tests.kits.isolation.scripted_worker import OFFER
from tests.kits.loops import BOTH_LOOPS
from tests.kits.paths import KITS
from tests.kits.waiting import wait_until_true

WORKER = KITS / "isolation" / "scripted_worker.py"
ORDER = WorkerOrder(
    type="python", name="strange", options={}, directory=str(WORKER.parent), working_dir=str(WORKER.parent)
)
REQUEST = WorkerCall(kind="tools", name="t", argument="", arguments={}, label="tool")
FINE = {"success": True, "output": 1, "error": None, "content": None, "code": None, "meta": None}


def build_scripted_process(steps: Sequence[Any]) -> PlainProcess:
    """Return the process of a worker with these steps in each call."""
    return PlainProcess(command=[sys.executable, "-S", str(WORKER), json.dumps(steps)])


@contextlib.asynccontextmanager
async def open_pool(*steps: Any, workers: int = 1) -> AsyncIterator[WorkerPool]:
    """Open a pool of workers with these steps in each call."""
    isolation = IsolationOptions(workers=workers, confinement=build_scripted_process(steps))
    pool = WorkerPool(ORDER, isolation, lambda message: None)
    with anyio.fail_after(TIMEOUT):
        async with anyio.create_task_group() as tasks:
            await tasks.start(pool.run)
            yield pool
            tasks.cancel_scope.cancel()


async def call_for_output(pool: WorkerPool) -> Any:
    """Return the output of a call, or the code of its error."""
    try:
        answer = await pool.call(REQUEST, RunningCall())
    except CallError as error:
        return error.code
    except Exception as error:
        return type(error).__name__
    return answer.output if isinstance(answer, ToolResult) else answer


CRASHING: dict[str, list[Any]] = {
    "not JSON": [{"raw": "\xff\x00 garbage\n"}],
    "a number": [5],
    "a list": [[1, 2]],
    "null": [None],
    "an object without a word": [{"id": "$id"}],
    "half a line": [{"raw": '{"say": "res'}, "exit"],
    "an end": ["exit"],
    "the end of its output": ["close", "sleep"],
    "deep nesting": [{"raw": "["}, {"raw": "[", "times": 5000}, {"raw": "\n"}],
    "a result that is none": [{"say": "result", "id": "$id"}],
    "a result of another shape": [{"say": "result", "id": "$id", "result": [1]}],
    "a result with odd content": [{"say": "result", "id": "$id", "result": {**FINE, "content": [1]}}],
    "a result with a text for content": [{"say": "result", "id": "$id", "result": {**FINE, "content": "x"}}],
    "a result with an odd code": [{"say": "result", "id": "$id", "result": {**FINE, "code": [1]}}],
    "a result with an odd error": [{"say": "result", "id": "$id", "result": {**FINE, "error": 1}}],
    "an error of another shape": [{"say": "result", "id": "$id", "error": 5}],
    "an error without a text": [{"say": "result", "id": "$id", "error": {"code": "x"}}],
    "needs of another shape": [{"say": "result", "id": "$id", "needs": {"questions": {}, "state": 1}}],
    "a failure in the middle": [{"say": "failed", "problem": "cannot go on"}],
    "an odd update": [{"say": "log"}, {"say": "updated"}, 7],
}


@pytest.mark.parametrize("case", CRASHING)
async def test_an_invalid_message_of_a_worker_fails_only_its_call(case: str) -> None:
    async with open_pool(*CRASHING[case]) as pool:
        for _ in range(2):
            assert await call_for_output(pool) == "tool_crashed"


BESIDE: dict[str, list[Any]] = {
    "an answer to another call": [{"say": "result", "id": 99, "result": FINE}],
    "an answer to an earlier call": [{"say": "result", "id": 0, "result": FINE}],
    "an id of another type": [{"say": "progress", "id": "x"}, {"say": "progress", "id": None}],
    "unknown words": [{"say": "hello", "id": "$id"}, {"say": ["x"], "id": "$id"}, {"say": None}],
    "odd notices": [
        {"say": "progress", "id": "$id"},
        {"say": "progress", "id": "$id", "progress": "x", "total": [], "message": {}},
        {"say": "message", "id": "$id", "level": "loud", "data": None, "logger": 5},
        {"say": "log", "level": "x", "text": ["a"]},
        {"say": "log", "level": 10**15, "text": "a\nb"},
        {"say": "updated", "uri": ["x"]},
    ],
    "requests within no run": [
        {"say": "ask", "id": "$id", "ask": 1, "what": "tools", "within": x} for x in ([1], {}, 5)
    ],
    "empty lines": [{"raw": "\n\n   \n"}],
    "questions of another shape": [
        {"say": "ask", "id": "$id"},
        {"say": "ask", "id": "$id", "ask": [1], "what": ["put"]},
        {"say": "ask", "id": "$id", "ask": 1, "what": "put", "questions": [1]},
        {"say": "ask", "id": "$id", "ask": 2, "what": "put", "questions": {"a": {"form": 1}}},
        {"say": "ask", "id": "$id", "ask": 3, "what": "invoke", "name": 5},
    ],
    "an offer beside": [{**OFFER, "tools": []}, {"say": "offer"}, {**OFFER, "tools": [5]}],
    "many notices": [{"raw": '{"say": "log", "level": 10, "text": "x"}\n', "times": 5000}],
}


@pytest.mark.parametrize("case", BESIDE)
async def test_unexpected_messages_of_a_worker_are_ignored(case: str) -> None:
    async with open_pool(*BESIDE[case], "answer") as pool:
        assert [await call_for_output(pool) for _ in range(3)] == ["fine"] * 3


@BOTH_LOOPS
async def test_a_result_that_is_too_long_is_rejected_and_the_next_call_works() -> None:
    async with open_pool({"raw": "x" * 1024, "times": 66_000}, {"raw": "\n"}) as pool:
        assert await call_for_output(pool) == "result_too_large"
        assert await call_for_output(pool) == "result_too_large"


async def test_a_result_with_too_many_values_is_rejected_and_the_next_call_works() -> None:
    many = {"raw": "[], ", "times": 300_000}
    steps = {"raw": '{"say": "result", "id": 1, "result": ['}, many, {"raw": "0]}\n"}
    async with open_pool(*steps) as pool:
        assert await call_for_output(pool) == "result_too_large"
        assert await call_for_output(pool) == "result_too_large"


async def test_a_second_result_is_not_that_of_the_next_call() -> None:
    late = {"say": "result", "id": "$id", "result": {**FINE, "output": "late"}}
    async with open_pool("answer", late, late) as pool:
        assert [await call_for_output(pool) for _ in range(5)] == ["fine"] * 5


FIRST: dict[str, tuple[list[Any], str]] = {
    "an end": (["first", "exit"], "ended its process with exit code 3 before its first offer"),
    "garbage": (["first", {"raw": "garbage\n"}], "before its first offer"),
}


def build_pool(steps: list[Any]) -> WorkerPool:
    return WorkerPool(ORDER, IsolationOptions(confinement=build_scripted_process(steps)), lambda message: None)


@pytest.mark.parametrize("case", FIRST)
async def test_a_pool_reports_why_its_first_worker_cannot_start_and_continues(case: str) -> None:
    steps, words = FIRST[case]
    with anyio.fail_after(TIMEOUT):
        async with anyio.create_task_group() as tasks:
            problem = await tasks.start(build_pool(steps).run)
            tasks.cancel_scope.cancel()
    assert words in str(problem)


async def test_a_pool_ends_if_the_source_in_its_first_worker_has_failed() -> None:
    pool = build_pool(["first", {"say": "failed", "problem": "no such file"}])
    with anyio.fail_after(TIMEOUT), pytest.RaisesGroup(pytest.RaisesExc(FailedSource, match="no such file")):
        await pool.run()


ODD_OFFERS: list[Any] = [
    {"say": "offer"},
    {**OFFER, "tools": 5},
    {**OFFER, "tools": [None]},
    {**OFFER, "tools": [{**OFFER["tools"][0], "name": 5}]},  # type: ignore[index]
    {**OFFER, "tools": [{**OFFER["tools"][0], "input_schema": "x"}]},  # type: ignore[index]
    {**OFFER, "tools": [{**OFFER["tools"][0], "tags": 5, "meta": 7, "annotations": [], "icons": {}}]},  # type: ignore[index]
    {**OFFER, "prompts": [{"name": "p", "arguments": [5]}]},
    {**OFFER, "problems": 5},
]


@pytest.mark.parametrize("number", range(len(ODD_OFFERS)))
async def test_an_invalid_offer_does_not_affect_others(number: int) -> None:
    class Inner(Source):
        async def run(self, publish: Any) -> None: ...

    confinement = build_scripted_process(["first", ODD_OFFERS[number]])
    source = IsolatedSource(Inner("strange"), ORDER, IsolationOptions(workers=1, confinement=confinement))
    registry = ToolRegistry()
    offered = anyio.Event()

    def publish(offer: Offer) -> None:
        registry.publish("strange", offer.tools, prompts=offer.prompts)
        offered.set()

    with anyio.move_on_after(TIMEOUT):
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                with contextlib.suppress(SourceError):
                    await source.run(publish)
                offered.set()

            tasks.start_soon(run)
            await offered.wait()
            tasks.cancel_scope.cancel()
    assert offered.is_set()


json_values = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False) | some.text(),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(), inner, max_size=3),
    max_leaves=8,
)
WORDS = ["result", "ask", "progress", "message", "log", "updated", "offer", "close stream", "too long"]
messages = some.lists(
    some.fixed_dictionaries(
        {"say": some.sampled_from(WORDS), "id": some.just("$id")},
        optional=dict.fromkeys(
            ("ask", "what", "result", "error", "needs", "level", "data", "progress", "crash", "questions"), json_values
        ),
    ),
    max_size=4,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=messages)
async def test_no_message_of_a_worker_leaks_a_slot_of_the_pool(steps: Any) -> None:
    async with open_pool(*steps, "answer") as pool:
        for _ in range(2):
            await call_for_output(pool)
        await wait_until_true(lambda: pool._slots.in_use == 0)
        assert pool._nested_slots.in_use == 0


@BOTH_LOOPS
async def test_a_call_that_is_cancelled_while_its_worker_starts_leaves_the_worker_to_the_next() -> None:
    async with open_pool("answer") as pool:
        for _ in range(3):
            (worker,) = pool._free
            worker.kill()
            await worker.ended.wait()
            with anyio.move_on_after(0.001):
                await pool.call(REQUEST, RunningCall())
            assert await call_for_output(pool) == "fine"
            assert len(pool._all) == 1
        assert pool._slots.in_use == 0


@BOTH_LOOPS
async def test_a_cancelled_call_releases_its_slot_if_its_worker_does_not_read() -> None:
    async with open_pool("sleep") as pool:
        huge = WorkerCall(kind="tools", name="t", argument="", arguments="x" * 5_000_000, label="tool")
        for request in (REQUEST, huge):
            with anyio.move_on_after(0.2):
                await pool.call(request, RunningCall())
            await wait_until_true(lambda: pool._slots.in_use == 0)


@BOTH_LOOPS
async def test_a_crashed_call_releases_its_slot_if_it_is_cancelled() -> None:
    async with open_pool("exit") as pool:
        for wait in (0.0, 0.005, 0.02, 0.05):
            with anyio.move_on_after(wait), contextlib.suppress(ToolCrashed, ToolUnavailable):
                await pool.call(REQUEST, RunningCall())
            await wait_until_true(lambda: pool._slots.in_use == 0)


@BOTH_LOOPS
async def test_a_pool_ends_soon_whatever_its_workers_do() -> None:
    async with open_pool("sleep", workers=4) as pool, anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(call_for_output, pool)
        await wait_until_true(lambda: len(pool._all) == 4)
        tasks.cancel_scope.cancel()


async def test_pauses_follow_workers_that_end_without_a_call() -> None:
    async with open_pool("answer") as pool:
        for _ in range(3):
            (worker,) = pool._free
            worker.kill()
            await wait_until_true(lambda old=worker: pool._free and pool._free[0] is not old)
        assert pool._pause >= 2.0
        assert await call_for_output(pool) == "fine"
        assert pool._pause == 0.0
