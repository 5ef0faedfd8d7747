"""Every way to a server."""

from __future__ import annotations

import pytest

from tests.kits.processes.processes_kit import WAYS, Way


@pytest.fixture(params=WAYS, ids=str)
def way(request: pytest.FixtureRequest) -> Way:
    """stdio and HTTP, in both eras."""
    given: Way = request.param
    return given
