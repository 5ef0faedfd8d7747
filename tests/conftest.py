"""What every test may use."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("bridge", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("bridge")  # how fast a busy machine is says nothing about behaviour


def pytest_configure() -> None:
    """Servers of the tests hear every signal, also where the tests run in the background (nohup, `&`)."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """A worker that ends in the middle of a test leaves no word of its own: say how it ended."""
    if error:
        with contextlib.suppress(Exception):
            print(f"\n{node.gateway.id} ended with {node.gateway._io.popen.wait(10)}", file=sys.stderr, flush=True)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Failures are named at once: a run that is cut off has no summary."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\nFAILED {report.nodeid} ({report.when})", file=sys.stderr, flush=True)


@pytest.fixture(autouse=True)
def log_level_of_its_own() -> Iterator[None]:
    """A command that is run in this process sets how much is logged: the next test hears all of it again."""
    yield
    logging.getLogger("mcp_bridge").setLevel(logging.NOTSET)


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio; those whose subject differs by event loop are marked `BOTH_LOOPS` (tests/kits/loops)."""
    return "asyncio"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """amplifier-core runs on asyncio alone: there is no such test on trio."""
    items[:] = [item for item in items if not {"core", "trio"} <= set(_parameters(item))]


def _parameters(item: pytest.Item) -> list[Any]:
    """What a test's host and event loop are."""
    given = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return [given.get("host"), given.get("anyio_backend")]


@pytest.fixture(params=["native", "core"])
def host(request: pytest.FixtureRequest) -> str:
    """The host that modules are mounted on: a test that asks for it runs on both."""
    return str(request.param)


@pytest.fixture(scope="session", autouse=True)
def state_of_tests() -> Iterator[None]:
    """What bridges keep for their user is kept for the tests alone; the path is short, for sockets."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="st") as folder:
        patch.setenv("XDG_STATE_HOME", folder)
        yield


@pytest.fixture
def without_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if amplifier-core were not installed."""
    for name in ["amplifier_core", *sys.modules]:
        if name.partition(".")[0] == "amplifier_core":
            monkeypatch.setitem(sys.modules, name, None)


@pytest.fixture
def forgotten(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Modules of other tests are forgotten before a test, and its own after it: their names are often alike."""
    _forget(str(tmp_path_factory.getbasetemp()))
    yield
    _forget(str(tmp_path))


def _forget(folder: str) -> None:
    sys.path[:] = [path for path in sys.path if not path.startswith(folder)]
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(folder):
            del sys.modules[name]
