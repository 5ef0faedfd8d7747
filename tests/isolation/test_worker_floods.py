"""A worker with a flood of messages for the bridge has to wait, and hardly affects others."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import anyio
import pytest

from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolEntry, ToolResult
from mcp_bridge._isolation import process
from mcp_bridge._isolation.conversation import MAX_REQUESTS, WorkerCall
from mcp_bridge._isolation.options import IsolationOptions
from mcp_bridge._isolation.pool import WorkerPool
from tests.isolation.test_untrusted_workers import ORDER, REQUEST, build_scripted_process
from tests.kits.constants import TIMEOUT
from tests.kits.isolation.scripted_worker import OFFER
from tests.kits.loops import BOTH_LOOPS


class CountingContext(RunningCall):
    """Counts the actions of a call. Nested calls never end."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self.counts["progress"] += 1

    async def log(self, level: Any, data: Any, logger: str | None = None) -> None:
        self.counts["log"] += 1

    def tools(self) -> list[Any]:
        self.counts["tools"] += 1
        return []

    async def invoke(self, name: str, arguments: Any = None) -> ToolResult:
        self.counts["invoke"] += 1
        await anyio.sleep_forever()
        raise AssertionError


async def call_flooding(ctx: CountingContext, steps: list[Any], request: WorkerCall = REQUEST) -> Any:
    """Return the result of a call in a worker with these steps."""

    def count(message: Any) -> None:
        ctx.counts["messages"] += 1

    isolation = IsolationOptions(workers=1, confinement=build_scripted_process(steps))
    pool = WorkerPool(ORDER, isolation, count)
    with anyio.fail_after(TIMEOUT):
        async with anyio.create_task_group() as tasks:
            await tasks.start(pool.run)
            result = await pool.call(request, ctx)
            tasks.cancel_scope.cancel()
    return result


FLOODS: dict[str, Any] = {
    "progress": {"say": "progress", "id": 1, "progress": 1, "total": None, "message": None},
    "log": {"say": "message", "id": 1, "level": "info", "data": "x", "logger": None},
    "tools": {"say": "ask", "id": 1, "ask": 1, "what": "tools"},
    "messages": {"say": "log", "level": 10, "text": "x"},
}


@pytest.fixture
def low_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MESSAGE_BURST", 200)
    monkeypatch.setattr(process, "MESSAGE_RATE", 100)


async def measure(ctx: CountingContext, message: Any, times: int) -> float:
    """Return the duration of a call with this many messages."""
    before = time.monotonic()
    result = await call_flooding(ctx, [{"raw": json.dumps(message) + "\n", "times": times}, "answer"])
    assert result.output == "fine"
    return time.monotonic() - before


@BOTH_LOOPS
@pytest.mark.usefixtures("low_rate")
@pytest.mark.parametrize("case", FLOODS)
async def test_a_worker_that_floods_the_bridge_has_to_wait(case: str) -> None:
    ctx = CountingContext()
    # The first offer uses half of the burst allowance.
    assert await measure(ctx, FLOODS[case], 300) > 1.5
    # The result of the call cancels the requests for tools that have only begun.
    assert ctx.counts[case] >= 300 - (MAX_REQUESTS if case == "tools" else 0)


@pytest.mark.usefixtures("low_rate")
async def test_long_messages_count_more() -> None:
    assert await measure(CountingContext(), {**FLOODS["messages"], "text": "x" * 20_480}, 10) > 0.9


@pytest.mark.usefixtures("low_rate")
async def test_offers_count_more() -> None:
    assert await measure(CountingContext(), OFFER, 2) > 0.9


@pytest.mark.usefixtures("low_rate")
async def test_long_replies_count_more() -> None:
    class LongContext(CountingContext):
        async def invoke(self, name: str, arguments: Any = None) -> ToolResult:
            return ToolResult(success=True, output="x" * 20_480)

    asks = [{"say": "ask", "id": "$id", "ask": 1, "what": "invoke", "name": "t", "arguments": {}}] * 10
    wait = [{"raw": json.dumps(FLOODS["messages"]) + "\n", "times": 20}] * 10
    before = time.monotonic()
    result = await call_flooding(LongContext(), [*asks, *wait, "answer"])
    assert result.output == "fine"
    assert time.monotonic() - before > 2.5


@BOTH_LOOPS
async def test_a_call_has_a_limited_number_of_questions_and_calls_at_once() -> None:
    ctx = CountingContext()
    ask = {"say": "ask", "id": 1, "ask": 1, "what": "invoke", "name": "t", "arguments": {}}
    result = await call_flooding(ctx, [{"raw": json.dumps(ask) + "\n", "times": 5 * MAX_REQUESTS}, "answer"])
    assert result.output == "fine"
    assert ctx.counts["invoke"] == MAX_REQUESTS


async def test_many_questions_in_one_request_count_one_by_one() -> None:
    questions = {str(number): {"roots": {}} for number in range(MAX_REQUESTS + 1)}
    asked: list[Any] = []

    class AskingContext(CountingContext):
        async def put(self, questions: Any) -> Any:
            asked.append(questions)
            return {}

    ctx = AskingContext()
    ask = {"say": "ask", "id": "$id", "ask": 1, "what": "put", "questions": questions}
    assert (await call_flooding(ctx, [ask, "answer"])).output == "fine"
    assert asked == []


@BOTH_LOOPS
async def test_a_call_has_a_limited_number_of_tools_that_its_worker_has_begun_to_run() -> None:
    class RunningContext(CountingContext):
        async def invoke_entry(self, entry: ToolEntry, arguments: Any = None) -> ToolResult:
            self.counts["begun"] += 1
            # The worker never reports the outcome.
            result: ToolResult = await entry.handler(arguments, self)
            return result

    ctx, request = RunningContext(), replace(REQUEST, publish_tool=lambda ctx, entry: entry)
    begin = {"say": "ask", "id": 1, "ask": 1, "what": "begin", "within": None, "name": "t", "schema": {}}
    flood = {"raw": json.dumps({**begin, "arguments": {}}) + "\n", "times": 2 * MAX_REQUESTS}
    result = await call_flooding(ctx, [flood, "answer"], request)
    assert result.output == "fine"
    assert 0 < ctx.counts["begun"] <= MAX_REQUESTS


@pytest.mark.parametrize("ask", [{"what": "invoke", "name": "t", "arguments": {}}, {"what": "put", "questions": {}}])
async def test_a_worker_that_does_not_read_its_replies_gets_a_limited_number(ask: Any) -> None:
    class LongContext(CountingContext):
        async def invoke(self, name: str, arguments: Any = None) -> ToolResult:
            self.counts["asked"] += 1
            return ToolResult(success=True, output="x" * 100_000)

        async def put(self, questions: Any) -> Any:
            self.counts["asked"] += 1
            return {"x" * 100_000: ()}

    ctx = LongContext()
    flood = {"raw": json.dumps({"say": "ask", "id": 1, "ask": 1, **ask}) + "\n", "times": 3 * MAX_REQUESTS}
    with anyio.move_on_after(1.5):
        await call_flooding(ctx, [flood, "sleep"])
    # The pipe has room for one.
    assert 0 < ctx.counts["asked"] <= MAX_REQUESTS + 2
