"""What the survival tests share: every way to a server, and servers that several faults are done to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.kits.survival.fault_kit import Shared
from tests.kits.survival.survival_kit import WAYS, Way


@pytest.fixture(params=WAYS, ids=str)
def way(request: pytest.FixtureRequest) -> Way:
    """stdio and HTTP, in both eras."""
    given: Way = request.param
    return given


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """The servers of this module, unless it has others."""
    servers = Shared(tmp_path_factory, "fault_tools.py")
    yield servers
    servers.close()


@pytest.fixture
def server(way: Way, shared: Shared) -> Any:
    """A server that is alive."""
    return shared.server(way)
