"""FastMCP servers that a file holds, served whole."""

from __future__ import annotations

import pytest

from tests.kits.frameworks.environments import needs

needs("fastmcp")

from tests.kits.frameworks.server_scenarios import *  # noqa: F403
from tests.kits.frameworks.server_scenarios import FASTMCP

pytestmark = pytest.mark.filterwarnings("ignore:The .* capability is deprecated")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def kind() -> str:
    return FASTMCP
