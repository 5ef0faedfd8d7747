"""Over HTTP, unnamed clients of the stateless era cannot be distinguished, so they share no state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge import CallContext, ToolEntry
from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._integrations.amplifier.sessions.module_sessions import SessionLimits
from mcp_bridge._settings import Document, parse
from tests.integrations.amplifier.test_amplifier_clients import COUNTS, NOTES, Noting, call_note
from tests.kits.amplifier.amplifier_plans import BOTH_HOSTS, ServedPlan
from tests.kits.constants import TIMEOUT
from tests.kits.http.http_hosting import HTTP_WAYS, serve_http

pytestmark = pytest.mark.usefixtures("forgotten", "host")
LEGACY, STATELESS = HTTP_WAYS[0], HTTP_WAYS[1]


@pytest.mark.parametrize("tool", ["note", "note_in_thread"])
@BOTH_HOSTS
async def test_calls_of_unnamed_clients_share_nothing(tmp_path: Path, tool: str) -> None:
    noting = Noting(tmp_path)
    async with (
        noting.run_bridge(),
        serve_http(noting.bridge.registry) as (base, _),
        STATELESS.connect(base) as first,
        STATELESS.connect(base) as second,
    ):
        assert await call_note(first, "a", tool) == ["a"]
        assert await call_note(second, "b", tool) == ["b"]
        assert await call_note(first, "c", tool) == ["c"]
        await noting.until_ended(3)
    # The first session was started to publish the tools.
    assert noting.sessions("begun") == 4


async def test_clients_that_name_a_session_or_connect_keep_their_session(tmp_path: Path) -> None:
    noting, meta = Noting(tmp_path), {"mcp-bridge/session": "mine"}
    async with (
        noting.run_bridge(),
        serve_http(noting.bridge.registry) as (base, _),
        STATELESS.connect(base) as first,
        LEGACY.connect(base) as second,
    ):
        assert await call_note(first, "a", meta=meta) == ["a"]
        assert await call_note(first, "b", meta=meta) == ["a", "b"]
        assert await call_note(second, "c") == ["c"]
        assert await call_note(second, "d") == ["c", "d"]


async def test_unnamed_clients_share_a_session_if_the_settings_require_it(tmp_path: Path) -> None:
    noting = Noting(tmp_path, shared=True)
    async with (
        noting.run_bridge(),
        serve_http(noting.bridge.registry) as (base, _),
        STATELESS.connect(base) as first,
        STATELESS.connect(base) as second,
    ):
        assert await call_note(first, "a") == ["a"]
        assert await call_note(second, "b") == ["a", "b"]


async def test_hooks_and_nested_calls_of_one_call_share_its_session(tmp_path: Path) -> None:
    noting = Noting(tmp_path)

    async def note_twice(data: Any, ctx: CallContext) -> Any:
        await ctx.invoke("note", {"word": "a"})
        return (await ctx.invoke("note", {"word": "b"})).output["words"]

    noting.bridge.registry.register(ToolEntry("twice", "Notes two words.", note_twice, {"type": "object"}))
    async with noting.run_bridge(), serve_http(noting.bridge.registry) as (base, _), STATELESS.connect(base) as client:
        for _ in range(2):
            result = await client.call_tool("twice", {})
            assert json.loads(result.content[0].text) == ["a", "b"]
            assert sorted(block.text[:6] for block in result.content[1:]) == ["call 1", "call 2", "call 3"]


async def test_calls_of_other_tools_mount_no_modules_if_these_have_no_hooks(tmp_path: Path) -> None:
    events = tmp_path / "events.txt"
    server = ServedPlan(tmp_path, {"notes": NOTES}, tools=[{"module": "notes", "config": {"log": str(events)}}])
    server.bridge.registry.register(ToolEntry("own", "Answers.", lambda data: "ran", {"type": "object"}))
    async with server.run_bridge(), serve_http(server.bridge.registry) as (base, _), STATELESS.connect(base) as client:
        assert not (await client.call_tool("own", {})).is_error
        assert events.read_text() == "begun\n"
        for tool in ("note", "note_in_thread"):
            assert await call_note(client, "a", tool) == ["a"]
        with anyio.fail_after(TIMEOUT):
            while events.read_text().count("ended") < 2:  # noqa: ASYNC110 - the modules write a file
                await anyio.sleep(0.01)


async def test_workers_keep_no_state_for_the_next_call(tmp_path: Path) -> None:
    plan = {"tools": [{"module": "notes", "source": "notes.py", "config": {"log": str(tmp_path / "events.txt")}}]}
    source = {"type": "amplifier", "plan": plan, "isolation": {"tools": ["note*"], "workers": 1}}
    (tmp_path / "notes.py").write_text(NOTES)
    document = Document(path=str(tmp_path / "settings.json"), data={"sources": [source]})
    bridge = build_from_settings(parse(document, {}))
    with anyio.fail_after(TIMEOUT):
        async with bridge.run_sources():
            await bridge.wait_until_started()
            async with serve_http(bridge.registry) as (base, _), STATELESS.connect(base) as client:
                for tool in ("note", "note", "note_in_thread", "note_in_thread"):
                    assert await call_note(client, "a", tool) == ["a"]


async def test_more_calls_at_once_than_sessions_are_rejected(tmp_path: Path) -> None:
    noting = ServedPlan(
        tmp_path, {"waits": WAITS, "counts": COUNTS}, limits=SessionLimits(limit=1), tools=["waits"], hooks=["counts"]
    )
    async with (
        noting.run_bridge(),
        serve_http(noting.bridge.registry) as (base, _),
        STATELESS.connect(base) as first,
        STATELESS.connect(base) as second,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(first.call_tool, "wait", {})
        while noting.source.sessions.in_use < 1:  # noqa: ASYNC110 - the call is another process's
            await anyio.sleep(0.01)
        rejection = await second.call_tool("wait", {})
        assert rejection.meta["mcp-bridge/code"] == "overloaded"
        tasks.cancel_scope.cancel()


WAITS = """
import anyio

async def mount(coordinator, config):
    tool = MockTool("wait", "done")
    tool.execute = lambda input: anyio.sleep_forever()
    coordinator.mount("tools", tool)
"""
