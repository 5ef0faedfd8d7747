"""Fixtures of the survival tests: every kind of server, and servers shared by several tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.client.server_process import Way
from tests.kits.paths import KITS
from tests.kits.survival.fault_kit import SharedServers
from tests.kits.survival.survival_kit import WAYS, run_server


@pytest.fixture(params=WAYS, ids=str)
def way(request: pytest.FixtureRequest) -> Way:
    """Return how a client talks to the server: stdio and HTTP, in both eras."""
    parameter: Way = request.param
    return parameter


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServers]:
    """Yield the servers of a module without servers of its own."""
    tools = KITS / "survival" / "fault_tools.py"
    with contextlib.closing(
        SharedServers(lambda way: run_server(way, tmp_path_factory.mktemp("faults"), tools))
    ) as servers:
        yield servers


@pytest.fixture
def server(way: Way, shared: SharedServers) -> Any:
    """Return a running server."""
    return shared.server(way)
