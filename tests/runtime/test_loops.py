"""The resilient event loop, and the errors that still end it."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge._app import serve as serving
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._runtime.event_loop import EventLoop, make_loop_factory

INTERRUPTED = """
import os, signal, sys, threading
import anyio
from mcp_bridge._runtime.event_loop import make_loop_factory
from mcp_bridge._app.serve import run_on_event_loop

async def main():
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    await anyio.sleep(60)

try:
    run_on_event_loop(main, loop_factory=make_loop_factory(sys.argv[1]))
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.fixture(params=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> EventLoop:
    """Return each type of event loop on this platform."""
    if request.param == "uvloop" and sys.platform == "win32":
        pytest.skip("uvloop is not for Windows")
    loop_factory: EventLoop = request.param
    return loop_factory


@pytest.fixture
def run(loop: EventLoop) -> Callable[..., Any]:
    """Run on a loop of this kind."""
    return partial(serving.run_on_event_loop, loop_factory=make_loop_factory(loop))


async def _raise(error: BaseException) -> None:
    await anyio.sleep(0.001)
    raise error


def test_the_default_event_loop_is_the_one_of_asyncio() -> None:
    async def main() -> list[str]:
        return [base.__module__ for base in type(asyncio.get_running_loop()).__mro__]

    assert not any("uvloop" in module for module in serving.run_on_event_loop(main))


def test_a_missing_uvloop_is_an_error_with_the_name_of_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    with pytest.raises(ConfigError, match=r"uvloop is not available.*mcp-tool-bridge\[uvloop\]"):
        make_loop_factory("uvloop")


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_an_error_of_a_task_or_a_callback_does_not_end_the_event_loop(
    run: Callable[..., Any], error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> str:
        with contextlib.suppress(error):
            await asyncio.create_task(_raise(error()))
        asyncio.get_running_loop().call_soon(_throw, error())
        await anyio.sleep(0.01)
        return "done"

    assert run(main) == "done"
    assert caplog.text.count("a task or callback outside of any call tried to end the server") == 2


def _throw(error: BaseException) -> None:
    raise error


def test_stop_does_not_end_the_event_loop(run: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> str:
        asyncio.get_running_loop().stop()
        await anyio.sleep(0.01)
        return "done"

    assert run(main) == "done"
    assert "something stopped the event loop; it continues" in caplog.text


@pytest.mark.parametrize("error", [SystemExit(3), ValueError("own")])
def test_an_error_of_the_main_task_is_raised(run: Callable[..., Any], error: BaseException) -> None:
    with pytest.raises(type(error)):
        run(_raise, error)


def test_a_keyboard_interrupt_ends_the_event_loop(loop: EventLoop, tmp_path: Path) -> None:
    """Run in a separate process, because the rest of an interrupt could end the test run."""
    (tmp_path / "main.py").write_text(INTERRUPTED)
    process = subprocess.run(
        [sys.executable, "main.py", loop], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (process.returncode, process.stdout) == (0, "interrupted\n"), process.stderr
