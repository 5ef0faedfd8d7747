"""Real servers and their events logs: written to the end, by several at once, and in the bridge's process alone."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.kits.amplifier.observe_kit import lines
from tests.kits.constants import TIMEOUT
from tests.kits.survival.survival_kit import WAYS, Way, live

MODULE = """
from mcp_bridge.amplifier import ToolResult


class Say:
    name = "say"
    description = "Says."

    async def execute(self, input):
        return ToolResult(output=input)


async def mount(coordinator, config):
    await coordinator.mount("tools", Say())
"""
SECRET = "c0rrect-horse"


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    """The settings of a source with an events log, whose module has a secret."""
    (folder / "saying.py").write_text(MODULE)
    plan = {"tools": [{"module": "saying", "source": "saying.py", "config": {"at": "${SAYING_TOKEN}"}}]}
    return {"sources": [{"type": "amplifier", "events": "logs/events.jsonl", "plan": plan, **more}]}


@pytest.mark.parametrize("way", [Way("stdio", False), Way("http", True)], ids=str)
def test_the_last_event_is_written_when_a_server_ends(way: Way, tmp_path: Path) -> None:
    env = {"SAYING_TOKEN": SECRET}
    with live(way, tmp_path, settings=settings(tmp_path, sessions="shared"), env=env) as server:
        assert server.text("say", text="hi") == '{"text":"hi"}'
        status = server.ask("resources/read", {"uri": "amplifier://amplifier/status"}).result(TIMEOUT)
        session = json.loads(status["result"]["contents"][0]["text"])["session"]["id"]
        server.signal(signal.SIGTERM)
        server.ends()
    path = tmp_path / "logs" / "events.jsonl"
    assert path.stat().st_mode & 0o777 == 0o600
    assert SECRET not in path.read_text()
    found = lines(path)
    assert [line["event"] for line in found] == ["session:start", "tool:pre", "tool:post", "session:end"]
    assert {line["session_id"] for line in found} == {session}
    assert found[-1]["data"]["stats"]["calls"] == 1


def test_a_call_with_a_session_of_its_own_is_logged(tmp_path: Path) -> None:
    env = {"SAYING_TOKEN": SECRET}
    with live(Way("http", True), tmp_path, settings=settings(tmp_path), env=env) as server:
        assert server.text("say", text="hi") == '{"text":"hi"}'
        server.signal(signal.SIGTERM)
        server.ends()
    first, *own = lines(tmp_path / "logs" / "events.jsonl")
    own = [line for line in own if line["session_id"] != first["session_id"]]
    assert [line["event"] for line in own] == ["session:start", "tool:pre", "tool:post", "session:end"]


def test_two_servers_write_one_file(tmp_path: Path) -> None:
    given, env = settings(tmp_path), {"SAYING_TOKEN": SECRET}
    with (
        live(WAYS[0], tmp_path, settings=given, env=env) as one,
        live(WAYS[1], tmp_path, settings=given, env=env) as other,
    ):
        waiting = [server.call("say", text=f"{number}") for number in range(5) for server in (one, other)]
        assert all("result" in call.result(TIMEOUT) for call in waiting)
        for server in (one, other):
            server.hang_up()
            server.ends()
    found = [line for path in (tmp_path / "logs").iterdir() for line in lines(path)]
    assert len({line["session_id"] for line in found}) == 2


def test_a_worker_writes_no_events(tmp_path: Path) -> None:
    apart = settings(tmp_path, isolation={"tools": ["say"], "workers": 1})
    with live(WAYS[0], tmp_path, settings=apart, env={"SAYING_TOKEN": SECRET}) as server:
        assert server.text("say", text="hi") == '{"text":"hi"}'
        server.hang_up()
        server.ends()
    found = lines(tmp_path / "logs" / "events.jsonl")
    assert [line["event"] for line in found] == ["session:start", "tool:pre", "tool:post", "session:end"]
    assert SECRET not in (tmp_path / "logs" / "events.jsonl").read_text()
