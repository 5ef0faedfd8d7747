"""The layer of the pipeline that ends processes, in memory: what it costs, and whose a process is."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge import CallContext, ToolCall, ToolEntry, ToolRegistry
from mcp_bridge.middleware.processes import Processes
from mcp_bridge.pipeline.pipeline import Pipeline
from mcp_bridge.runtime.process_owners import RUN, Run, noted, started
from tests.kits.processes.processes_kit import a_token, carrying, eventually, is_gone, is_there

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there it is best effort")


def registry(handler: Any, timeout: float = 0.5) -> ToolRegistry:
    """One tool whose call times out."""
    made = ToolRegistry(pipeline=Pipeline(timeout=timeout, processes=Processes(grace=0.5)))
    made.register(ToolEntry("tool", "A tool.", handler, {"type": "object"}))
    return made


def sleeper(token: str) -> subprocess.Popen[bytes]:
    """A process that never ends."""
    return subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(1000)", token])


async def test_a_synchronous_tool_loses_its_process_and_its_thread_is_freed() -> None:
    token, codes = a_token(), []

    def handler(_: Any) -> None:
        codes.append(sleeper(token).wait())

    with noted():
        result = await registry(handler).dispatch(ToolCall(id="1", name="tool", arguments={}), CallContext())
        assert result.code == "timeout"
        await anyio.to_thread.run_sync(is_gone, token)
        await anyio.to_thread.run_sync(eventually, lambda: codes)
    assert codes == [-15]


async def test_an_async_tool_that_is_cancelled_loses_its_process() -> None:
    token, made = a_token(), []

    async def handler(_: Any) -> None:
        made.append(sleeper(token))
        await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        call = ToolCall(id="1", name="tool", arguments={})
        tasks.start_soon(registry(handler, 600).dispatch, call, CallContext())
        await anyio.to_thread.run_sync(is_there, token)
        tasks.cancel_scope.cancel()
    is_gone(token)
    made[0].wait()


async def test_a_call_that_ends_well_starts_neither_a_thread_nor_a_search() -> None:
    token, made, before = a_token(), [], set(threading.enumerate())

    def handler(_: Any) -> str:
        made.append(sleeper(token))
        return "done"

    with noted():
        result = await registry(handler, 60).dispatch(ToolCall(id="1", name="tool", arguments={}), CallContext())
    assert result.success
    later = set(threading.enumerate()) - before
    assert not [thread for thread in later if thread.name == "mcp-bridge processes"]
    assert carrying(token)
    made[0].kill()
    made[0].wait()


def test_a_call_does_not_import_psutil(tmp_path: Path) -> None:
    code = (
        "import sys, anyio\n"
        "from mcp_bridge import CallContext, ToolCall, ToolEntry, ToolRegistry\n"
        "from mcp_bridge.middleware.processes import Processes\n"
        "from mcp_bridge.pipeline.pipeline import Pipeline\n"
        "made = ToolRegistry(pipeline=Pipeline(processes=Processes()))\n"
        "made.register(ToolEntry('tool', 'A.', lambda _: 1, {'type': 'object'}))\n"
        "assert anyio.run(made.dispatch, ToolCall(id='1', name='tool', arguments={}), CallContext()).success\n"
        "assert 'psutil' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_what_is_noted_is_forgotten_with_the_block() -> None:
    before = subprocess.Popen.__init__
    run = Run("tool", None, lambda _: None)
    token = RUN.set(run)
    try:
        with noted():
            child = sleeper(a_token())
        assert list(run.started) == [child.pid]
        assert subprocess.Popen.__init__ is before
        child.kill()
        child.wait()
        started(None)
        assert len(run.started) == 1
    finally:
        RUN.reset(token)
