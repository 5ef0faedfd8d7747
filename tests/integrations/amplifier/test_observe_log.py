"""The events log: a line for each event, as hooks-logging writes it, without secrets, whatever is in the data."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._integrations.amplifier.events import ALL_EVENTS
from mcp_bridge._integrations.amplifier.sessions.module_sessions import SessionLimits
from mcp_bridge._integrations.amplifier.source import source as source_module
from mcp_bridge._integrations.amplifier.source.events_log import EventsLog, format_event, redact_config
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._settings import load
from mcp_bridge.amplifier import HookRegistry, ModuleCoordinator
from mcp_bridge.amplifier.testing import create_test_coordinator
from mcp_bridge.testing import connect
from tests.kits.amplifier.amplifier_plans import BOTH_HOSTS
from tests.kits.amplifier.observe_kit import ERAS, LEGACY, Observed, lines, named, read
from tests.kits.constants import TIMEOUT

pytestmark = pytest.mark.usefixtures("forgotten", "host")
EVERY_ERA = pytest.mark.parametrize("mode", ERAS)
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00")

TOOLS = """
async def mount(coordinator, config):
    class Say:
        name, description = "say", "Says."
        input_schema = {"type": "object", "properties": {"text": {}}, "required": ["text"]}
        async def execute(self, input):
            await coordinator.hooks.emit("say:own", {"text": input["text"]})
            await coordinator.hooks.emit("say:late", {"text": input["text"]})
            await coordinator.hooks.emit("say:unsaid", {"text": input["text"]})
            if input["text"] == "fail": raise ValueError("why")
            return {"success": True, "output": input["text"]}
    coordinator.register_capability("observability.events", ["say:own", 7])
    return Say()

async def on_session_ready(coordinator):
    coordinator.register_contributor("observability.events", "say", lambda: ("say:late", None))
    coordinator.register_contributor("observability.events", "one", lambda: "say:one")
    coordinator.register_contributor("observability.events", "bad", lambda: 1 / 0)
    coordinator.register_contributor("observability.events", "odd", lambda: {"x": 1})
"""
CHANGES = """
def mount(coordinator, config):
    def change(event, data):
        text = data["tool_input"]["text"]
        if text == "no": return HookResult(action="deny", reason="not that")
        return HookResult(action="modify", data={"tool_input": {"text": f"<{text}>" if text != "fail" else text}})
    return coordinator.hooks.register("tool:pre", change, priority=100)
"""
MODULES = {"observed_tools": TOOLS, "changes": CHANGES}
PLAN = {"tools": ["observed_tools"], "hooks": ["changes"]}


async def say(client: Client, text: Any, **options: Any) -> Any:
    """Call the tool."""
    return await client.call_tool("say", {"text": text}, **options)


@BOTH_HOSTS
async def test_what_happens_is_written_as_the_hooks_before_have_left_it(mode: str, tmp_path: Path) -> None:
    path = tmp_path / "logs" / "events.jsonl"
    async with Observed(tmp_path, MODULES, plan=PLAN, events=path).client(mode=mode) as client:
        session = (await read(client, "amplifier://mine/status"))["session"]["id"]
        for text in ("hi", "no", "fail"):
            await say(client, text)
    found = lines(path)
    assert [one["event"] for one in found] == [
        "session:start",
        *("tool:pre", "say:own", "say:late", "tool:post"),
        "tool:error",
        *("tool:pre", "say:own", "say:late", "tool:error"),
        "session:end",
    ]
    for one in found:
        assert list(one)[:5] == ["ts", "lvl", "schema", "event", "session_id"]
        assert TIME.fullmatch(one["ts"])
        assert one["schema"] == {"name": "amplifier.log", "ver": "1.0.0"}
        assert one["session_id"] == session
        assert one["lvl"] == ("ERROR" if "error" in one["event"] else "INFO")
    start, before, own, _, after, denied, *_, failed, end = found
    assert start["data"]["config"]["hooks"] == ["changes"]
    assert (before["data"]["tool_name"], before["data"]["tool_input"]) == ("say", {"text": "<hi>"})
    assert own["data"]["text"] == "<hi>"
    result = {"success": True, "output": "<hi>", "error": None}
    assert [after["data"][key] for key in ("result", "tool_result", "tool_response")] == [result] * 3
    assert denied["error"] == {"message": "Tool 'say' was denied: not that", "type": "denied"}
    assert denied["data"]["tool_input"] == {"text": "no"}
    assert failed["error"]["type"] == "internal_error"
    assert end["data"]["stats"].keys() == {"calls", "errors", "duration_ms"}
    assert (end["data"]["stats"]["calls"], end["data"]["stats"]["errors"]) == (3, 2)


@EVERY_ERA
async def test_each_session_has_a_file_of_its_own_where_the_path_says_so(mode: str, tmp_path: Path) -> None:
    path = tmp_path / "{session_id}" / "events.jsonl"
    async with Observed(tmp_path, MODULES, plan=PLAN, events=path).clients(mode) as clients:
        ids = []
        for name, client in zip(("one", "two"), clients, strict=True):
            await say(client, f"of {name}", **named(mode, name))
            ids.append((await read(client, "amplifier://mine/status", **named(mode, name)))["session"]["id"])
    for session, own, others in ((ids[0], "of one", "of two"), (ids[1], "of two", "of one")):
        text = (tmp_path / session / "events.jsonl").read_text()
        assert own in text
        assert others not in text
        assert {line["session_id"] for line in map(json.loads, text.splitlines())} == {session}


async def test_a_session_that_all_share_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    served = Observed(tmp_path, MODULES, plan=PLAN, events=path, limits=SessionLimits(shared=True))
    async with served.clients(LEGACY) as (one, other):
        await say(one, "a")
        await say(other, "b")
    assert [line["event"] for line in lines(path)].count("session:start") == 1
    assert len({line["session_id"] for line in lines(path)}) == 1


SECRET = "c0rrect-horse"


async def test_secrets_are_in_no_line_and_modules_have_them_all_the_same(tmp_path: Path) -> None:
    tells = """
    class Tell:
        name, description = "tell", "Tells what it was configured with."
        def __init__(self, config): self.config = config
        async def execute(self, input): return {**self.config, "length": len(self.config["api_key"])}
    def mount(coordinator, config):
        heard = []
        coordinator.hooks.register("session:start", lambda event, data: heard.append(data["config"]))
        coordinator.register_contributor("heard", "tell", lambda: [repr(heard), repr(coordinator.config)])
        return Tell(config)
    """
    (tmp_path / "tells.py").write_text("\n".join(line[4:] for line in tells.splitlines()))
    (tmp_path / "s.yaml").write_text(
        "sources:\n  - type: amplifier\n    events: log.jsonl\n    plan:\n      tools:\n        - module: tells\n"
        "          config: {where: 'https://${TELLS_TOKEN}@host', api_key: written-out, tokens: 5, at: [1, {pwd: x}]}\n"
    )
    async with connect(build_from_settings(load(tmp_path / "s.yaml", {"TELLS_TOKEN": SECRET}))) as client:
        result = await client.call_tool("tell", {})
        assert result.structured_content["where"] == "https://[secret]@host"
        assert result.structured_content["api_key"] == "[secret]"
        assert result.structured_content["length"] == len("written-out")
        heard, config = (await read(client, "amplifier://amplifier/contributions"))["channels"]["heard"][0]["value"]
        assert "written-out" not in heard
        assert "'api_key': '[secret]'" in config
    text = (tmp_path / "log.jsonl").read_text()
    assert SECRET not in text
    [start] = [line for line in lines(tmp_path / "log.jsonl") if line["event"] == "session:start"]
    given = start["data"]["config"]["tools"][0]["config"]
    assert given == {
        "where": "https://[secret]@host",
        "api_key": "[secret]",
        "tokens": 5,
        "at": [1, {"pwd": "[secret]"}],
    }


def test_a_plan_that_cannot_be_read_is_not_told() -> None:
    assert redact_config({"a": [{"token": "x", "tokens": ["y"]}]}) == {"a": [{"token": "[secret]", "tokens": ["y"]}]}
    assert redact_config({"loop": loop()}) == {}


async def test_no_value_breaks_a_line_or_writes_another(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    forged = 'x\n{"event":"forged"}\r\x1b[2J\x9b31m\u2028\u202e\x7f\x00 ünï 日本'
    async with Observed(tmp_path, MODULES, plan=PLAN, events=path).client() as client:
        await say(client, forged)
    raw = path.read_bytes()
    assert len(raw.splitlines()) == len(lines(path)) == len(raw.decode().splitlines())
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", raw.decode())
    assert "日本" in raw.decode()
    [before] = [line for line in lines(path) if line["event"] == "tool:pre"]
    assert before["data"]["tool_input"]["text"] == f"<{forged}>"


class Odd:
    """Something that says nothing of itself."""

    def __str__(self) -> str:
        raise SystemExit("odd")


def loop() -> list[Any]:
    """A list that contains itself."""
    made: list[Any] = []
    made.append(made)
    return made


@pytest.mark.parametrize("odd", [Odd(), loop()])
async def test_data_that_cannot_be_read_is_told_so_and_stops_nothing(odd: Any, tmp_path: Path) -> None:
    log = EventsLog(tmp_path / "log", Redactor())
    coordinator = ModuleCoordinator(hooks=HookRegistry(fail_closed=ALL_EVENTS))
    log.record_standard_events(coordinator)
    assert (await coordinator.hooks.emit("tool:pre", {"odd": odd})).action == "continue"
    log.close()
    [line] = lines(tmp_path / "log")
    assert (line["session_id"], line["lvl"]) == (coordinator.session_id, "ERROR")
    assert line["error"]["type"] == "Unreadable"


async def test_every_standard_event_is_written_and_the_log_decides_nothing(tmp_path: Path) -> None:
    log = EventsLog(tmp_path / "log", Redactor())
    coordinator = create_test_coordinator()
    log.record_standard_events(coordinator)
    await log.record_module_events(coordinator)
    for event in ALL_EVENTS:
        assert (await coordinator.hooks.emit(event, {"a": 1})).action == "continue"
    log.close()
    assert [line["event"] for line in lines(tmp_path / "log")] == list(ALL_EVENTS)


TOP = ["redaction", "status", "duration_ms", "module", "component", "error", "request_id", "span_id", "parent_span_id"]


@pytest.mark.parametrize(
    ("event", "data", "level"),
    [
        ("x", {}, "INFO"),
        ("x", {"lvl": "WARNING"}, "WARNING"),
        ("x", {"lvl": "DEBUG", "status": "error", "error": "e"}, "DEBUG"),
        ("x", {"status": "error"}, "ERROR"),
        ("x", {"status": "ok", "error": ""}, "INFO"),
        ("x", {"error": {"type": "t"}}, "ERROR"),
        ("provider:error", {}, "ERROR"),
    ],
)
def test_levels_are_those_of_hooks_logging(event: str, data: dict[str, Any], level: str) -> None:
    assert format_event(event, data)["lvl"] == level


def test_fields_that_hooks_logging_keeps_beside_the_data_are_there() -> None:
    made = format_event("x", {**dict.fromkeys(TOP, 1), "session_id": "s", "other": 2, "parent_id": None})
    assert list(made) == ["ts", "lvl", "schema", "event", *TOP, "session_id", "data"]
    assert made["data"] == {"other": 2, "parent_id": None}
    assert "data" not in format_event("x", {"session_id": "s"})


async def test_a_disk_that_fails_costs_no_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "events.jsonl"
    path.mkdir()
    async with Observed(tmp_path, MODULES, plan=PLAN, events=path).client() as client:
        for _ in range(3):
            assert (await say(client, "x")).content[0].text == "<x>"
    assert [message for message in caplog.messages if "cannot be written" in message]


async def test_a_plan_of_nothing_is_no_plan_because_its_events_are_written(tmp_path: Path) -> None:
    served = Observed(tmp_path, {"bad": "1 / 0"}, events=tmp_path / "events.jsonl")
    with anyio.fail_after(TIMEOUT):
        async with served.bridge.run_sources():
            with pytest.raises(Exception, match="bad: module 'bad' cannot be imported"):
                await served.bridge.wait_until_started()
    assert [line["event"] for line in lines(tmp_path / "events.jsonl")] == [
        "module:load_failed",
        "session:start",
        "session:end",
    ]


async def test_the_settings_say_where_and_the_log_rotates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "EventsLog", partial(EventsLog, max_bytes=1024))
    (tmp_path / "tools.py").write_text("from mcp_bridge.amplifier import HookResult\n" + TOOLS)
    (tmp_path / "s.yaml").write_text(
        "sources: [{type: amplifier, events: 'sub/{session_id}.jsonl', plan: {tools: [tools]}}]"
    )
    async with connect(build_from_settings(load(tmp_path / "s.yaml", {}))) as client:
        for _ in range(20):
            await say(client, "x" * 100)
        session = (await read(client, "amplifier://amplifier/status"))["session"]["id"]
    names = sorted(path.name for path in (tmp_path / "sub").iterdir())
    assert names == [f"{session}.jsonl", *(f"{session}.jsonl.{number}" for number in (1, 2, 3))]
