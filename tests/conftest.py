"""Fixtures and hooks of all tests."""

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

from tests.kits.constants import STATELESS

settings.register_profile(
    "bridge",
    # Machines are slow and busy, so examples have no deadline.
    deadline=None,
    # In CI the same examples run each time. Other runs explore new ones.
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("bridge")


def pytest_configure() -> None:
    """Restore the signals ignored by a shell for background jobs (nohup, `&`), because test servers inherit them."""
    for name in ("SIGHUP", "SIGINT", "SIGQUIT"):
        # Windows has only SIGINT.
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Print the exit status of a worker after a crash in a test: xdist does not."""
    if error:
        with contextlib.suppress(Exception):
            print(f"\n{node.gateway.id} ended with {node.gateway._io.popen.wait(10)}", file=sys.stderr, flush=True)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print each failure immediately: an interrupted run has no summary."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\nFAILED {report.nodeid} ({report.when})", file=sys.stderr, flush=True)


@pytest.fixture(autouse=True)
def reset_log_level() -> Iterator[None]:
    """Reset the log level after commands in this process."""
    yield
    logging.getLogger("mcp_bridge").setLevel(logging.NOTSET)


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio, and also on trio where they are marked `BOTH_LOOPS` (tests/kits/loops.py)."""
    return "asyncio"


@pytest.fixture
def mode() -> str:
    """Return the era of the client: the newest one, and the one before it too in tests marked `EVERY_ERA`."""
    return STATELESS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Remove the combination of amplifier-core and trio: amplifier-core runs on asyncio only."""
    items[:] = [item for item in items if not _is_core_on_trio(item)]


def _is_core_on_trio(item: pytest.Item) -> bool:
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return (params.get("host"), params.get("anyio_backend")) == ("core", "trio")


@pytest.fixture(scope="session", autouse=True)
def state_of_tests() -> Iterator[None]:
    """Store the state of bridges in a temporary folder. Its path is short because sockets have a limit."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="st") as folder:
        patch.setenv("XDG_STATE_HOME", folder)
        yield


@pytest.fixture
def without_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make imports of amplifier-core fail, as where it is not installed."""
    for name in ["amplifier_core", *sys.modules]:
        if name.partition(".")[0] == "amplifier_core":
            monkeypatch.setitem(sys.modules, name, None)


@pytest.fixture
def forgotten(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Remove imported modules of other tests before a test and its own after it: their names are often the same."""
    _forget(str(tmp_path_factory.getbasetemp()))
    yield
    _forget(str(tmp_path))


def _forget(folder: str) -> None:
    sys.path[:] = [path for path in sys.path if not path.startswith(folder)]
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(folder):
            del sys.modules[name]
