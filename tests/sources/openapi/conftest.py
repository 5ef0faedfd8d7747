"""The API of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kits.openapi.api_server import ApiServer, run_api


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with run_api() as server:
        yield server
