"""Servers of the official MCP SDK that a file holds."""

from __future__ import annotations

import pytest

from tests.kits.frameworks.server_scenarios import *  # noqa: F403
from tests.kits.frameworks.server_scenarios import SDK

pytestmark = pytest.mark.filterwarnings("ignore:The .* capability is deprecated")


@pytest.fixture
def kind() -> str:
    return SDK
