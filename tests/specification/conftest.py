"""The fixtures of the protocol tests: one server with every kind of connection."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import pytest

from tests.kits.paths import ROOT
from tests.kits.protocol import protocol_prefork
from tests.kits.protocol.protocol_hosting import Hosting, run_host
from tests.kits.protocol.protocol_ways import Connected, Way, list_ways, run_server


def pytest_configure(config: pytest.Config) -> None:
    """Know the marker of `proves`."""
    config.addinivalue_line("markers", "proves(*ids): the requirements of the manifest that this test proves")


@pytest.fixture(scope="session")
def prefork() -> Iterator[str]:
    """Run the process that forks servers over stdio, and yield its socket."""
    # On some systems, pytest's folder is too deep for a socket.
    with tempfile.TemporaryDirectory(prefix="mcp") as folder:
        address = f"{folder}/socket"
        command = [sys.executable, "-m", protocol_prefork.__name__, address]
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == protocol_prefork.READY
            yield address
            assert process.stdin is not None
            process.stdin.close()


@pytest.fixture(scope="session")
def host() -> Iterator[Hosting]:
    """Run a real HTTP server."""
    with run_host() as server:
        yield server


@pytest.fixture(params=list_ways("memory"), ids=str)
def way(request: pytest.FixtureRequest) -> Way:
    """Return the way of the test: in memory in both eras, unless the test is marked with `over(...)`."""
    given: Way = request.param
    return given


@pytest.fixture
def anyio_backend(way: Way) -> str:
    """Return the event loop of the way."""
    return way.backend


@pytest.fixture
def options() -> Mapping[str, Any]:
    """Return the options of the server (see `protocol_server.make`). Tests override them by parametrization."""
    return {}


@pytest.fixture
def http() -> Mapping[str, Any]:
    """Return the access options of the HTTP server (`token`, and fields of `HttpOptions`)."""
    return {}


@pytest.fixture
async def connected(
    way: Way, prefork: str, host: Hosting, options: Mapping[str, Any], http: Mapping[str, Any]
) -> AsyncIterator[Connected]:
    """Yield a server, to which the test connects clients in its way."""
    async with run_server(way, prefork, host, options, http) as server:
        yield server
