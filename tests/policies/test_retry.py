"""`retry`: the repeated tools and failures, and the number of attempts."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.kits.policies.policies_kit import call, open_tools

TOOLS = '''
import threading
from mcp_bridge import ToolError

runs = []
IDEMPOTENT = {"idempotentHint": True}


@tool(annotations=IDEMPOTENT)
def fail(error: str, times: int) -> int:
    """Fail so many times."""
    runs.append(error)
    if len(runs) <= times:
        raise {"reset": ConnectionResetError, "value": ValueError, "busy": busy}[error]("no")
    return len(runs)


def busy(text):
    return ToolError(text, code="busy")


@tool(annotations=IDEMPOTENT)
async def hang() -> int:
    """Hang at first."""
    import anyio
    runs.append("hang")
    if len(runs) == 1:
        await anyio.sleep(3600)
    return len(runs)


@tool(annotations=IDEMPOTENT)
async def ask(ctx: CallContext) -> str:
    """Ask, and fail."""
    runs.append("ask")
    await ctx.ask("Who?")
'''
FAST = {"wait": "1ms"}


@pytest.mark.parametrize(
    ("error", "times", "options", "runs"),
    [
        # ConnectionResetError is a subclass of ConnectionError.
        ("reset", 2, {}, 3),
        ("reset", 3, {}, None),
        ("reset", 3, {"attempts": 4}, 4),
        ("value", 1, {}, None),
        ("value", 1, {"errors": "internal_error"}, 2),
        ("busy", 1, {}, None),
        ("busy", 1, {"errors": ["busy"]}, 2),
        ("reset", 1, {"principals": "ann"}, None),
    ],
)
async def test_the_named_failures_are_repeated(
    tmp_path: Path, error: str, times: int, options: Any, runs: int | None
) -> None:
    async with open_tools(tmp_path, TOOLS, {"retry": {**FAST, **options}}) as bridge:
        result = await call(bridge, "fail", error=error, times=times)
    assert result.output == runs
    assert result.is_error == (runs is None)


async def test_each_attempt_has_the_whole_time_limit(tmp_path: Path) -> None:
    async with open_tools(tmp_path, TOOLS, {"retry": FAST}, limits={"timeout": "100ms"}) as bridge:
        assert (await call(bridge, "hang")).output == 2


async def test_the_last_failure_is_the_result(tmp_path: Path) -> None:
    async with open_tools(tmp_path, TOOLS, {"retry": {**FAST, "errors": "busy"}}) as bridge:
        result = await call(bridge, "fail", error="busy", times=9)
    assert (result.code, result.error_text) == ("busy", "no")


async def test_the_log_has_each_attempt(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mcp_bridge.policies")
    async with open_tools(tmp_path, TOOLS, {"retry": FAST}) as bridge:
        await call(bridge, "fail", error="reset", times=1)
    assert [record.message for record in caplog.records if record.name == "mcp_bridge.policies"] == [
        "tool 'fail': attempt 2 of 3"
    ]


async def test_a_tool_that_returns_an_error_is_repeated_too(tmp_path: Path) -> None:
    code = '''
from mcp_bridge import ToolResult
runs = []


@tool(annotations={"readOnlyHint": True})
def look():
    """Look."""
    runs.append(1)
    return ToolResult(success=len(runs) > 1, output=len(runs), error=None if len(runs) > 1 else "busy", code="busy")
'''
    async with open_tools(tmp_path, code, {"retry": {**FAST, "errors": "busy"}}) as bridge:
        assert (await call(bridge, "look")).output == 2


async def test_attempts_wait_for_a_slot_like_the_first_one(tmp_path: Path) -> None:
    """A second attempt that needed no slot would exceed `limits.concurrency`."""
    code = '''
import anyio

runs, most, running = [], [0], [0]


@tool(annotations={"idempotentHint": True})
async def work(key: str) -> int:
    """Fail at first, and count how many run at once."""
    running[0] += 1
    most[0] = max(most[0], running[0])
    try:
        await anyio.sleep(0)
        runs.append(key)
        if runs.count(key) == 1:
            raise ConnectionError("reset")
        await anyio.sleep(0)
    finally:
        running[0] -= 1
    return most[0]
'''
    results: list[int] = []

    async def run(key: str) -> None:
        results.append((await call(bridge, "work", key=key)).output)

    limits = {"tools": {"work": {"concurrency": 1}}}
    policy = {"retry": {**FAST, "attempts": 5}}
    async with open_tools(tmp_path, code, policy, limits=limits) as bridge, anyio.create_task_group() as tasks:
        for key in "abcd":
            tasks.start_soon(run, key)
    assert results == [1, 1, 1, 1]
