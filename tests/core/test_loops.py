"""The event loop that goes on, whichever it is made of; and what may still end it."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from mcp_bridge.app.serve import run
from mcp_bridge.runtime.event_loop import lasting

INTERRUPTED = """
import asyncio, importlib.util, os, signal, sys, threading
import anyio
from mcp_bridge.app.serve import run

async def main():
    assert ("uvloop" in type(asyncio.get_running_loop()).__mro__[2].__module__) == (sys.argv[1] == "uvloop")
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    await anyio.sleep(60)

if sys.argv[1] == "asyncio":
    importlib.util.find_spec = lambda _: None
try:
    run(main)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.fixture(params=["uvloop", "asyncio"], autouse=True)
def loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With uvloop, and where there is none."""
    if request.param == "asyncio":
        monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    elif sys.platform == "win32":
        pytest.skip("uvloop is not for Windows")
    return str(request.param)


@pytest.fixture
def anyio_backend() -> str:
    """These tests begin loops of their own."""
    return "asyncio"


async def _raise(error: BaseException) -> None:
    await anyio.sleep(0.001)
    raise error


def test_it_is_made_of_what_there_is(loop: str) -> None:
    made = lasting()()
    assert ("uvloop" in type(made).__mro__[2].__module__) == (loop == "uvloop")
    made.close()


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_it_goes_on_after_what_a_task_or_a_callback_raises(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> str:
        with contextlib.suppress(error):
            await asyncio.create_task(_raise(error()))
        asyncio.get_running_loop().call_soon(_throw, error())
        await anyio.sleep(0.01)
        return "done"

    assert run(main) == "done"
    assert caplog.text.count("a task or callback beside the calls tried to end the server") == 2


def _throw(error: BaseException) -> None:
    raise error


def test_it_goes_on_after_it_was_stopped(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> str:
        asyncio.get_running_loop().stop()
        await anyio.sleep(0.01)
        return "done"

    assert run(main) == "done"
    assert "something stopped the event loop; it goes on" in caplog.text


@pytest.mark.parametrize("error", [SystemExit(3), ValueError("own")])
def test_what_the_main_task_raises_is_raised(error: BaseException) -> None:
    with pytest.raises(type(error)):
        run(_raise, error)


def test_a_persons_interrupt_ends_it(loop: str, tmp_path: Path) -> None:
    """In a process of its own: what is left of an interrupt may end whoever runs the tests."""
    (tmp_path / "main.py").write_text(INTERRUPTED)
    done = subprocess.run(
        [sys.executable, "main.py", loop], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr
