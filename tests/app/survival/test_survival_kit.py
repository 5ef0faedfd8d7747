"""The kit itself: a neighbour is in flight, and a server that dies is seen to."""

from __future__ import annotations

from pathlib import Path

from tests.kits.survival.survival_kit import Way, live


def test_a_neighbour_is_answered_beside_other_calls(way: Way, tmp_path: Path) -> None:
    with live(way, tmp_path) as server, server.neighbour():
        assert server.text("echo", text="hello") == "hello"
        assert server.result("whoami")["content"][0]["text"] == str(server.pid)
