"""Clients get a response at shutdown even if their call ignores its cancellation."""

from __future__ import annotations

from pathlib import Path
from signal import SIGTERM

import pytest

from tests.client.server_process import Way
from tests.kits.survival.ending_kit import CLOSED, begin_call, run_ending_server, wait_for_code
from tests.kits.survival.survival_kit import WAYS


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_call_that_ignores_cancellation_gets_an_error_at_shutdown(way: Way, tmp_path: Path) -> None:
    with run_ending_server(way, tmp_path, 0.2) as server:
        response = begin_call(server, "ignores_cancellation", "call")
        server.signal(SIGTERM)
        assert wait_for_code(response) == CLOSED
        assert server.wait() == 0
