"""Status and contributions: a client reads only about the modules of its session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPDeprecationWarning

from mcp_bridge._integrations.amplifier.sessions.module_sessions import SessionLimits
from mcp_bridge._integrations.amplifier.source import status
from tests.kits.amplifier.amplifier_plans import BOTH_HOSTS
from tests.kits.amplifier.observe_kit import (
    CONTRIBUTIONS,
    ERAS,
    LEGACY,
    STATELESS,
    STATUS,
    ObservedPlan,
    name_session,
    read_json,
)
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS

pytestmark = pytest.mark.usefixtures("forgotten", "host")
EVERY_ERA = pytest.mark.parametrize("mode", ERAS)

TOOL = """
async def mount(coordinator, config):
    coordinator.register_capability("counting", 1)
    coordinator.register_contributor("observability.events", "tool", lambda: ["tool:begun"])
    await coordinator.mount("tools", MockTool("greet"), name="key")
"""
HOOK = """
async def mount(coordinator, config):
    coordinator.hooks.register("tool:pre", lambda event, data: None, priority=7, name="late")
    coordinator.hooks.register("tool:pre", lambda event, data: None, priority=-1, name="early")
"""
PROVIDER = """
from mcp_bridge.amplifier.testing import MockProvider
async def mount(coordinator, config): return MockProvider()
"""
CONTEXT = """
class Keeps: ...
async def mount(coordinator, config): await coordinator.mount("context", Keeps())
"""
MODULES = {
    "tool": TOOL,
    "hook": HOOK,
    "provider": PROVIDER,
    "context": CONTEXT,
    "bad": "1 / 0",
    "idle": "async def mount(c, d): pass",
    "unready": "async def mount(c, d): return MockTool('t')\nasync def on_session_ready(c): raise ValueError('why')",
}
PLAN = {
    "session": {"context": "context"},
    "providers": ["provider"],
    "tools": [{"module": "tool", "source": "tool.py"}, "bad", "idle", "unready"],
    "hooks": ["hook"],
}


@BOTH_HOSTS
async def test_the_status_has_mounted_and_failed_modules_and_the_handlers_of_events(
    mode: str, host: str, tmp_path: Path
) -> None:
    async with ObservedPlan(tmp_path, MODULES, plan=PLAN).connect(mode=mode) as client:
        content = await read_json(client, STATUS)
    assert content["source"] == "mine"
    assert content["sessions"] == {"in_use": 1, "most": 100, "shared": False}
    session = content["session"]
    states = {module["module"]: module for module in session["modules"]}
    assert list(states) == ["context", "provider", "tool", "bad", "idle", "unready", "hook"]
    assert states["tool"] == {"module": "tool", "kind": "tools", "source": "tool.py", "mounted": True, "problem": None}
    assert [name for name, module in states.items() if not module["mounted"]] == ["bad", "idle", "unready"]
    assert "ZeroDivisionError" in states["bad"]["problem"]
    assert "mounted nothing" in states["idle"]["problem"]
    assert "on_session_ready failed: ValueError: why" in states["unready"]["problem"]
    assert [problem.partition(":")[0] for problem in session["problems"]] == ["bad", "idle", "unready"]
    assert (session["host"], session["context"], session["orchestrator"]) == (host, "Keeps", None)
    assert (session["tools"]["key"], session["providers"]) == ("greet", {"mock": "mock"})
    assert session["hooks"] == {"tool:pre": [{"name": "early", "priority": -1}, {"name": "late", "priority": 7}]}
    assert "counting" in session["capabilities"]
    assert session["channels"] == {"observability.events": ["tool"]}
    assert session["stats"] == {"calls": 0, "errors": 0}


async def test_both_resources_are_listed_as_json_and_counts_grow(mode: str, tmp_path: Path) -> None:
    failing = "def mount(c, d):\n    async def no(i): raise ValueError\n    t = MockTool('no')\n    t.execute = no\n"
    modules = {"tool": TOOL, "no": failing + "    return t"}
    async with ObservedPlan(tmp_path, modules).connect(mode=mode) as client:
        resources = {str(resource.uri): resource for resource in (await client.list_resources()).resources}
        assert sorted(resources) == [CONTRIBUTIONS, STATUS]
        assert {resource.mime_type for resource in resources.values()} == {"application/json"}
        for name in ("greet", "greet", "no"):
            await client.call_tool(name, {})
        assert (await read_json(client, STATUS))["session"]["stats"] == {"calls": 3, "errors": 1}


GIVES = """
async def mount(coordinator, config):
    state = coordinator.session_state
    def give(name, what): coordinator.register_contributor("notes", name, what)
    give("words", lambda: state.setdefault("words", []))
    give("nothing", lambda: None)
    give("odd", lambda: {1, b"x"} and {"when": __import__("datetime").date(2026, 1, 2), "nan": float("nan")})
    give("broken", lambda: 1 / 0)
    give("ends", lambda: exit(3))
    async def later(): return {"late": True}
    give("later", later)
    coordinator.register_contributor("other", "only", lambda: ["x"])

    class Note:
        name, description = "note", "Notes."
        async def execute(self, input): state.setdefault("words", []).append(input["word"])
    return Note()
"""


@BOTH_HOSTS
async def test_contributions_are_collected_on_each_read_and_failures_are_named(
    mode: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = ObservedPlan(tmp_path, {"gives": GIVES})
    async with server.connect(mode=mode) as client:
        await client.call_tool("note", {"word": "a"})
        content = await read_json(client, CONTRIBUTIONS)
        assert content["session"] == (await read_json(client, STATUS))["session"]["id"]
        assert content["channels"]["other"] == [{"name": "only", "value": ["x"]}]
        assert content["channels"]["notes"] == [
            {"name": "words", "value": ["a"]},
            {"name": "odd", "value": {"when": "2026-01-02", "nan": None}},
            {"name": "broken", "error": "ZeroDivisionError"},
            {"name": "ends", "error": "SystemExit"},
            {"name": "later", "value": {"late": True}},
        ]
        await client.call_tool("note", {"word": "b"})
        assert (await read_json(client, CONTRIBUTIONS))["channels"]["notes"][0]["value"] == ["a", "b"]
    assert "the contribution of 'broken' to 'notes' is left out" in caplog.text


@BOTH_LOOPS
async def test_a_contributor_that_hangs_does_not_prevent_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "CONTRIBUTOR_TIMEOUT", 0.05)
    text = """
import anyio
async def mount(c, d):
    c.register_contributor("x", "hangs", anyio.sleep_forever)
    c.register_contributor("x", "after", lambda: 1)
    return MockTool("t")
"""
    with anyio.fail_after(TIMEOUT):
        async with ObservedPlan(tmp_path, {"hangs": text}).connect() as client:
            content = await read_json(client, CONTRIBUTIONS)
    assert content["channels"]["x"] == [{"name": "hangs", "error": "TimeoutError"}, {"name": "after", "value": 1}]


@EVERY_ERA
async def test_two_clients_never_see_each_others_contributions_or_status(mode: str, tmp_path: Path) -> None:
    async with ObservedPlan(tmp_path, {"gives": GIVES}).connect_clients(mode) as clients:
        records = []
        for name, client in zip(("one", "two"), clients, strict=True):
            await client.call_tool("note", {"word": f"of {name}"}, **name_session(mode, name))
            records.append(
                [await read_json(client, uri, **name_session(mode, name)) for uri in (STATUS, CONTRIBUTIONS)]
            )
        (first, record), (second, second_record) = records
        assert first["session"]["id"] != second["session"]["id"]
        assert (first["sessions"]["in_use"], second["sessions"]["in_use"]) == (1, 2)
        assert record["channels"]["notes"][0]["value"] == ["of one"]
        assert second_record["channels"]["notes"][0]["value"] == ["of two"]
        for mine, yours in ((records[0], second), (records[1], first)):
            assert yours["session"]["id"] not in json.dumps(mine)


@EVERY_ERA
async def test_clients_that_share_a_session_read_the_same(mode: str, tmp_path: Path) -> None:
    async with ObservedPlan(tmp_path, {"gives": GIVES}, limits=SessionLimits(shared=True)).connect_clients(mode) as (
        first_client,
        second_client,
    ):
        await first_client.call_tool("note", {"word": "a"})
        first, second = await read_json(first_client, CONTRIBUTIONS), await read_json(second_client, CONTRIBUTIONS)
        assert first == second
        assert first["channels"]["notes"][0]["value"] == ["a"]
        assert (await read_json(second_client, STATUS))["sessions"] == {"in_use": 1, "most": 100, "shared": True}


async def test_a_client_without_a_session_reads_the_number_of_sessions(tmp_path: Path) -> None:
    text = """
import anyio
class Waits:
    name, description = "wait", "Waits."
    async def execute(self, input): await anyio.sleep_forever()
def mount(c, d): return Waits()
"""
    server = ObservedPlan(tmp_path, {"waits": text}, limits=SessionLimits(limit=1))
    async with server.connect_clients(LEGACY) as (first, second), anyio.create_task_group() as tasks:
        tasks.start_soon(first.call_tool, "wait", {})
        while not (content := await read_json(second, STATUS))["sessions"]["in_use"] or content["session"] is not None:
            await anyio.lowlevel.checkpoint()
        assert content == {"source": "mine", "sessions": {"in_use": 1, "most": 1, "shared": False}, "session": None}
        tasks.cancel_scope.cancel()


async def test_the_status_has_no_secrets(tmp_path: Path) -> None:
    secret = "tr0ub4dor-and-3"
    modules = {"tool": TOOL, "leaks": f"def mount(c, d): raise ValueError({secret!r})"}
    away = "git+https://me:hidden-word@host.example/x"
    plan = {"tools": ["tool", "leaks", {"module": "away", "source": away}]}
    async with ObservedPlan(tmp_path, modules, plan=plan, secrets=[secret]).connect() as client:
        text = json.dumps(await read_json(client, STATUS))
    assert secret not in text
    assert "ValueError: [secret]" in text
    assert "hidden-word" not in text


ODD = """
class Odd:
    description = "Odd."
    seen = 0
    @property
    def name(self):
        self.seen += 1
        if self.seen > 3: raise SystemExit("odd")
        return "odd"
    async def execute(self, input): ...
def mount(c, d): c.mount("tools", Odd(), name="key")
"""


async def test_the_status_is_complete_with_a_tool_that_cannot_be_read(tmp_path: Path) -> None:
    async with ObservedPlan(tmp_path, {"odd": ODD, "tool": TOOL.replace('"key"', '"k"')}).connect() as client:
        for _ in range(5):
            tools = (await read_json(client, STATUS))["session"]["tools"]
        assert tools == {"key": "SystemExit: odd", "k": "greet"}


COMES = """
def mount(c, d):
    class Grows:
        name, description = "grow", "Mounts a tool."
        async def execute(self, input): c.mount("tools", MockTool("grown"))
    return Grows()
"""


@EVERY_ERA
async def test_subscribed_clients_are_notified_of_a_changed_status(mode: str, tmp_path: Path) -> None:
    send, notifications = anyio.create_memory_object_stream[str](100)

    async def record_notification(message: Any) -> None:
        if "resources/updated" in str(getattr(message, "method", "")):
            await send.send(str(message.params.uri))

    with anyio.fail_after(TIMEOUT):
        server = ObservedPlan(tmp_path, {"comes": COMES})
        async with server.connect(mode=mode, message_handler=record_notification) as client, send, notifications:
            if mode == STATELESS:
                async with client.listen(resource_subscriptions=[STATUS]) as changes:
                    await client.call_tool("grow", {})
                    assert str((await anext(aiter(changes))).uri) == STATUS
            else:
                with pytest.warns(MCPDeprecationWarning):
                    await client.subscribe_resource(STATUS)
                await client.call_tool("grow", {})
                assert await notifications.receive() == STATUS
            assert "grown" in (await read_json(client, STATUS))["session"]["tools"]
