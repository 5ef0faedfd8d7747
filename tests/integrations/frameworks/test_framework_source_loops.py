"""Code for asyncio is called on asyncio, even if the bridge runs on another event loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import anyio
import pytest
from anyio import to_thread

from mcp_bridge._runtime.asyncio_runner import run_on_asyncio
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS

pytestmark = BOTH_LOOPS
WORD: contextvars.ContextVar[str] = contextvars.ContextVar("WORD")


async def test_a_coroutine_runs_on_asyncio_with_the_context_of_the_call() -> None:
    async def call() -> str:
        await asyncio.sleep(0)
        return WORD.get()

    WORD.set("here")
    assert await run_on_asyncio(call) == "here"


async def test_an_error_of_a_coroutine_on_asyncio_is_raised() -> None:
    async def call() -> None:
        await asyncio.sleep(0)
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        await run_on_asyncio(call)


async def test_cancelling_a_call_cancels_its_coroutine_on_asyncio() -> None:
    has_begun, has_ended = threading.Event(), threading.Event()

    async def call() -> None:
        has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            has_ended.set()

    with anyio.fail_after(TIMEOUT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_on_asyncio, call)
            assert await to_thread.run_sync(has_begun.wait, TIMEOUT)
            tasks.cancel_scope.cancel()
        assert await to_thread.run_sync(has_ended.wait, TIMEOUT)
