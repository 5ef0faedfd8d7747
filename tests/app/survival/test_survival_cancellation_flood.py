"""Cancellations are cheap, for known and unknown requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.client.server_process import StdioServerProcess, Way
from tests.kits.survival.survival_kit import WAYS, run_server

COUNT = 20_000
ROUNDS = 4
"""Other work on the machine can make one measurement too high."""


@pytest.mark.parametrize("way", [way for way in WAYS if way.transport == "stdio"], ids=str)
def test_a_cancellation_costs_no_more_than_three_pings(way: Way, tmp_path: Path) -> None:
    ping = {"jsonrpc": "2.0", "id": "ping", "method": "ping"}
    with run_server(way, tmp_path) as server, server.keep_call_in_flight():
        ping_time = measure(server, ping)
        unknown_time = measure(server, make_cancellation("unknown"))
        finished_time = measure(server, make_cancellation("ping"))
    assert max(unknown_time, finished_time) <= 3 * ping_time


def make_cancellation(request_id: Any) -> dict[str, Any]:
    params = {"requestId": request_id, "reason": "flood"}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}


def measure(server: StdioServerProcess, message: dict[str, Any]) -> float:
    """Return the seconds of CPU that the server spends on many copies of a message: the least of several times."""
    process, lines = psutil.Process(server.pid), (json.dumps(message).encode() + b"\n") * COUNT

    def measure_once() -> float:
        before = sum(process.cpu_times()[:2])
        server.write(lines)
        assert server.get_text("echo", text="there") == "there"
        return sum(process.cpu_times()[:2]) - before

    return min(measure_once() for _ in range(ROUNDS))
