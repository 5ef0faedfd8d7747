"""The audit log of approvals contains each decision and its decider, no arguments, and no forged lines."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest

from mcp_bridge import ToolEntry
from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._policies.approvals.decisions import MIN_READING_TIME, ApprovalDecision, hash_json
from mcp_bridge._settings import load
from mcp_bridge._storage.stores.memory import MemoryStore
from mcp_bridge.testing import connect
from tests.kits.approvals.approvals_kit import ALWAYS, DENY, ONCE, SESSION, SESSION_KEY, build_host, read_records
from tests.kits.constants import EVERY_ERA
from tests.kits.hooks.hooks_kit import ScriptedUser, ask, open_client
from tests.kits.questions.asking_kit import accept, get_code, get_text, make_bridge, serve_client

KEYS = ("a key of thirty-two bytes or more, for tests",)
FORGED = 'x"}\n{"tool": "forged"}\r\x1b[2J\u2028'


@EVERY_ERA
async def test_a_line_records_the_decision_its_decider_and_its_caller(mode: str, tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    host, user = build_host(MemoryStore(), audit=audit), ScriptedUser(SESSION, ALWAYS, ONCE)
    async with open_client(host, mode, user) as client:
        for n in (1, 1, 2, 3):
            await client.call_tool("add", {"n": n}, meta={SESSION_KEY: "mine"})
    records = read_records(audit)
    assert [(record["decision"], record["how"]) for record in records] == [
        ("session", "elicitation"),
        ("session", "remembered"),
        ("always", "elicitation"),
        ("once", "elicitation"),
    ]
    assert {record["session"] for record in records} == {"named//mine"}
    assert {record["principal"] for record in records} == {""}
    assert [record["arguments"] for record in records] == [hash_json({"n": n}) for n in (1, 1, 2, 3)]
    assert all(record["tool"] == "add" and record["seconds"] >= 0 and "hurried" not in record for record in records)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", record["time"]) for record in records)
    assert stat.S_IMODE(audit.stat().st_mode) == 0o600


@EVERY_ERA
@pytest.mark.parametrize("default", ["allow", "deny"])
async def test_defaults_and_timeouts_are_recorded_differently_from_decisions_of_users(
    mode: str, default: Any, tmp_path: Path
) -> None:
    audit = tmp_path / "audit.jsonl"
    host = build_host(audit=audit, hooks=False)
    host.on("tool:pre", ask(approval_default=default, approval_timeout=0.05))

    async def user(context: Any, params: Any) -> Any:
        with anyio.move_on_after(0.5):
            await anyio.sleep_forever()
        return types.ElicitResult(action="decline")

    async with open_client(host, mode) as client:
        await client.call_tool("add", {"n": 1})
    async with open_client(host, mode, user) as client:
        await client.call_tool("add", {"n": 1})
    decision = "once" if default == "allow" else "deny"
    # in the stateless era the late decline arrives before the call runs by default
    last = ("deny", "elicitation") if default == "allow" and mode != "legacy" else (decision, "timeout")
    assert [(record["decision"], record["how"]) for record in read_records(audit)] == [(decision, "default"), last]
    assert not any("hurried" in record for record in read_records(audit))


async def decline_slowly() -> Any:
    """Read the question, wait, and decline."""
    await anyio.sleep(MIN_READING_TIME + 0.1)
    return types.ElicitResult(action="decline")


@EVERY_ERA
async def test_a_decline_after_the_reading_time_is_not_marked(mode: str, tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    host, user = build_host(audit=audit), ScriptedUser(decline_slowly)
    async with open_client(host, mode, user) as client:
        await client.call_tool("add", {"n": 1})
    assert [record.get("hurried") for record in read_records(audit)] == [None]
    assert read_records(audit)[0]["seconds"] >= MIN_READING_TIME


@pytest.mark.parametrize(
    ("decision", "hurried"),
    [
        (ApprovalDecision(scope="deny", how="elicitation", seconds=0.4), True),
        (ApprovalDecision(scope="deny", how="terminal", seconds=0.4), True),
        (ApprovalDecision(scope="deny", how="elicitation", seconds=0.5), False),
        (ApprovalDecision(scope="deny", how="elicitation"), False),
        (ApprovalDecision(scope="once", how="elicitation", seconds=0.0), False),
        (ApprovalDecision(scope="deny", how="default", seconds=0.0), False),
        (ApprovalDecision(scope="deny", how="timeout", seconds=0.0), False),
    ],
)
def test_a_decline_within_half_a_second_is_marked_as_hurried(decision: ApprovalDecision, hurried: bool) -> None:
    assert decision.is_hurried is hurried


async def test_a_decline_faster_than_the_reading_time_is_marked(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    host = build_host(audit=audit)
    host.asking._clock = iter([0.0, 0.0, 0.3]).__next__
    async with open_client(host, "legacy", ScriptedUser("decline")) as client:
        await client.call_tool("add", {"n": 1})
    assert [(record["decision"], record["hurried"]) for record in read_records(audit)] == [("deny", True)]


async def test_another_instance_records_how_long_the_user_took(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    hosts = [build_host(audit=audit) for _ in range(2)]
    first_bridge, second_bridge = (make_bridge(host.registry, keys=KEYS) for host in hosts)
    async with serve_client(first_bridge) as first_client, serve_client(second_bridge) as second_client:
        call = first_client.start_call("add", {"n": 2})
        await call.get_questions()
        await anyio.sleep(MIN_READING_TIME + 0.1)
        await call.continue_on(second_client).get_result({"q1": accept(value=DENY)})
        (record,) = read_records(audit)
        assert (record["decision"], record["how"], record.get("hurried")) == ("deny", "elicitation", None)
        assert record["seconds"] >= MIN_READING_TIME
        first_client.close_input()


async def test_a_repeated_decision_is_recorded_once(tmp_path: Path) -> None:
    audit, store = tmp_path / "audit.jsonl", MemoryStore()
    hosts = [build_host(store, audit=audit, hooks=False) for _ in range(3)]
    for host in hosts:
        host.on("tool:pre", ask("First?"))
        host.registry.register(build_asking_tool())
    bridges = [make_bridge(host.registry, keys=KEYS) for host in hosts]
    async with (
        serve_client(bridges[0]) as first,
        serve_client(bridges[1]) as second,
        serve_client(bridges[2]) as third,
    ):
        call = first.start_call("needy", {})
        await call.get_questions()
        call = call.continue_on(second)
        assert list(await call.get_questions({"q1": accept(value=ONCE)})) == ["name"]
        assert "Ann" in get_text(await call.continue_on(third).get_result({"name": accept(value="Ann")}))
        assert [record["decision"] for record in read_records(audit)] == ["once"]
        first.close_input()
        second.close_input()


async def test_a_decline_applies_even_if_the_same_call_was_allowed_in_between() -> None:
    store = MemoryStore()
    hosts = [build_host(store) for _ in range(2)]
    first_bridge, second_bridge = (make_bridge(host.registry, keys=KEYS) for host in hosts)
    async with serve_client(first_bridge) as first_client, serve_client(second_bridge) as second_client:
        first, second = (first_client.start_call("add", {"n": 2}) for _ in range(2))
        await first.get_questions()
        await second.get_questions()
        await second.get_result({"q1": accept(value=ALWAYS)})
        assert (
            get_code(await first.continue_on(second_client).get_result({"q1": accept(value=DENY)}))
            == "approval_declined"
        )
        assert get_code(await second_client.start_call("add", {"n": 2}).get_result()) is None
        first_client.close_input()
    assert [len(host.calls) for host in hosts] == [1, 1]


def build_asking_tool() -> ToolEntry:
    """Build a tool that asks for a name by its result."""
    from mcp_bridge import CallContext, Form
    from mcp_bridge.questions import NeedsInput

    def needy(data: Any, ctx: CallContext) -> Any:
        if "name" not in ctx.answers:
            return NeedsInput({"name": Form("Whose?", str)})
        return ctx.answers["name"].data

    return ToolEntry("needy", "Asks.", needy, {"type": "object"})


async def test_names_from_modules_and_clients_cannot_forge_a_line(
    mode: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    audit = tmp_path / "audit.jsonl"
    host = build_host(MemoryStore(), audit=audit, hooks=False)
    host.registry.register(ToolEntry(FORGED, "Odd.", lambda data: "ran", {"type": "object"}))
    host.on("tool:pre", ask(FORGED, approval_options=[FORGED, "Allow"], reason=FORGED))
    async with open_client(host, mode, ScriptedUser(FORGED, "Allow")) as client:
        (name,) = {tool.name for tool in (await client.list_tools()).tools} - {"add", "say"}
        for _ in range(2):
            await client.call_tool(name, {"text": "my password"}, meta={SESSION_KEY: FORGED})
    records = read_records(audit)
    assert [(record["tool"], record["decision"]) for record in records] == [(FORGED, "deny"), (FORGED, "once")]
    assert len(audit.read_bytes().splitlines()) == 2
    assert "password" not in audit.read_text()
    messages = [record.getMessage() for record in caplog.records if record.name == "mcp_bridge.approvals"]
    assert not [text for text in messages if not text.isprintable()]


async def locate_missing_folder(folder: Path) -> Path:
    """Return a file in a missing folder."""
    return folder / "none" / "audit.jsonl"


async def locate_folder(folder: Path) -> Path:
    """Return the folder."""
    return folder


async def make_pipe(folder: Path) -> Path:
    """Make a named pipe without a reader."""
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


@pytest.mark.parametrize("place", [locate_missing_folder, locate_folder, make_pipe])
async def test_an_audit_log_that_cannot_be_written_fails_no_call(
    place: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    host = build_host(audit=await place(tmp_path))
    async with open_client(host, "legacy", ScriptedUser(ONCE)) as client:
        assert not (await client.call_tool("add", {"n": 1})).is_error
    assert "cannot write to the audit log" in caplog.text


async def test_lines_of_concurrent_calls_stay_whole(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    host = build_host(audit=audit)
    async with open_client(host, "legacy", ScriptedUser(ONCE)) as client, anyio.create_task_group() as tasks:
        for n in range(20):
            tasks.start_soon(client.call_tool, "add", {"n": n})
    assert sorted(record["arguments"] for record in read_records(audit)) == sorted(
        hash_json({"n": n}) for n in range(20)
    )


ECHO = """
from mcp_bridge.amplifier.testing import MockTool

async def mount(coordinator, config):
    return MockTool("echo", "said")
"""
ASKS = """
from mcp_bridge.amplifier import HookResult

async def mount(coordinator, config):
    ask = HookResult(action="ask_user", approval_prompt="Sure?")
    return coordinator.hooks.register("tool:pre", lambda event, data: ask)
"""


@pytest.mark.usefixtures("forgotten")
async def test_the_settings_apply_to_a_source_with_some_tools_in_workers(tmp_path: Path) -> None:
    (tmp_path / "echo.py").write_text(ECHO)
    (tmp_path / "asks.py").write_text(ASKS)
    (tmp_path / "settings.yaml").write_text(
        "approvals: {audit: audit.jsonl}\n"
        "sources:\n"
        "  - type: amplifier\n"
        "    isolation: {tools: [echo], workers: 1}\n"
        "    plan:\n"
        "      tools: [{module: echo, source: echo.py}]\n"
        "      hooks: [{module: asks, source: asks.py}]\n"
    )
    user = ScriptedUser("Allow once")
    bridge = build_from_settings(load(tmp_path / "settings.yaml", {}))
    async with connect(bridge, elicitation_callback=user) as client:
        assert not (await client.call_tool("echo", {})).is_error
    assert [record["how"] for record in read_records(tmp_path / "audit.jsonl")] == ["elicitation"]
