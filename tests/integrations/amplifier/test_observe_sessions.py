"""The events of a session, and slow modules: they do not delay the start, and are reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.source import SourceServices
from mcp_bridge._runtime.third_party import copy_value
from mcp_bridge._settings import load
from mcp_bridge._sources.python import PythonSource
from tests.kits.amplifier.amplifier_plans import BOTH_HOSTS, ServedPlan
from tests.kits.amplifier.observe_kit import LEGACY, STATUS, ObservedPlan, read_json, read_json_lines
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS

pytestmark = pytest.mark.usefixtures("forgotten", "host")

GOOD = "def mount(c, d): return MockTool('good')"
SLOW = {
    "mount": "import anyio\nasync def mount(c, d):\n    await anyio.sleep_forever()",
    "a mount that has begun": (
        "import anyio\nasync def mount(c, d):\n    c.hooks.register('tool:pre', lambda e, d: None)\n"
        "    await anyio.sleep_forever()"
    ),
    "on_session_ready": (
        "import anyio\nasync def mount(c, d): c.register_capability('mine', 1)\n"
        "async def on_session_ready(c): await anyio.sleep_forever()"
    ),
}
WHAT = {
    "mount": "its mount timed out after 1 seconds (start_timeout)",
    "a mount that has begun": "its mount timed out after 1 seconds (start_timeout)",
    "on_session_ready": "on_session_ready failed: it timed out after 1 seconds (start_timeout)",
}


def make_python_source(folder: Path) -> PythonSource:
    """Return a source of another type."""
    (folder / "own.py").write_text(
        "from mcp_bridge import prompt, tool\n\n@tool\ndef own() -> str:\n    return 'ran'\n\n"
        "@prompt\ndef hello() -> str:\n    return 'hello'\n"
    )
    return PythonSource("own", path=folder / "own.py")


@pytest.mark.parametrize("what", SLOW)
@BOTH_LOOPS
async def test_a_module_that_is_never_mounted_does_not_delay_the_others(what: str, tmp_path: Path) -> None:
    server = ObservedPlan(tmp_path, {"slow": SLOW[what], "good": GOOD}, start_timeout=1)
    with anyio.fail_after(TIMEOUT):
        async with server.connect() as client:
            assert not (await client.call_tool("good", {})).is_error
            [state, _] = (await read_json(client, STATUS))["session"]["modules"]
    assert WHAT[what] in state["problem"]
    assert len(server.problems) == 1
    assert server.problems[0].startswith("slow: ")


@pytest.mark.parametrize("what", SLOW)
async def test_every_call_is_denied_if_a_hook_module_is_never_mounted(mode: str, what: str, tmp_path: Path) -> None:
    plan = {"tools": ["good"], "hooks": ["slow"]}
    modules = {"slow": SLOW[what], "good": GOOD}
    server = ObservedPlan(tmp_path, modules, plan=plan, start_timeout=1, other_sources=[make_python_source(tmp_path)])
    with anyio.fail_after(TIMEOUT):
        async with server.connect(mode=mode) as client:
            for name in ("own", "good"):
                result = await client.call_tool(name, {})
                assert result.is_error
                assert "the hooks of 'slow' are not in place" in result.content[0].text
            with pytest.raises(MCPError, match="the hooks of 'slow' are not in place"):
                await client.get_prompt("hello")


async def test_every_call_is_denied_if_a_hook_module_is_not_ready(tmp_path: Path) -> None:
    unready = "def mount(c, d): c.register_capability('mine', 1)\nasync def on_session_ready(c): 1 / 0"
    server = ObservedPlan(tmp_path, {"unready": unready, "good": GOOD}, plan={"tools": ["good"], "hooks": ["unready"]})
    async with server.connect() as client:
        assert "the hooks of 'unready' are not in place" in (await client.call_tool("good", {})).content[0].text


@BOTH_LOOPS
async def test_a_resolver_that_never_returns_is_a_problem(tmp_path: Path) -> None:
    class Resolver:
        async def resolve(self, module_id: str, source_hint: Any = None) -> Any:
            await anyio.sleep_forever()

    server = ObservedPlan(tmp_path, {"good": GOOD}, resolver=Resolver(), start_timeout=1)
    with anyio.fail_after(TIMEOUT):
        with pytest.raises(Exception, match="its resolver timed out after"):
            async with server.run_bridge():
                pass


async def test_blocking_time_is_not_limited_and_no_timeout_allows_any_time(tmp_path: Path) -> None:
    slow = "import time\ntime.sleep(1.2)\nasync def mount(c, d):\n    return MockTool('good')"
    for options in ({"start_timeout": 1}, {"start_timeout": None}):
        server = ObservedPlan(tmp_path, {f"slow_{len(options)}": slow}, **options)
        async with server.connect() as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["good"]


def test_an_invalid_timeout_is_an_error_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("sources:\n  - {type: amplifier, start_timeout: soon, plan: {}}")
    with pytest.raises(ConfigError, match=r"s.yaml:2: sources\[0\].start_timeout: "):
        build_from_settings(load(tmp_path / "s.yaml", {}))


KEEPS = """
import json
from pathlib import Path

def mount(coordinator, config):
    def keep(event, data):
        with Path(config["path"]).open("a") as file:
            file.write(json.dumps({"event": event, "session_id": data["session_id"], "data": data}) + "\\n")
    for event in ("module:load_failed", "module:on_session_ready_failed", "session:start", "session:end"):
        coordinator.hooks.register(event, keep)
"""


@BOTH_HOSTS
async def test_modules_receive_the_events_of_their_session(mode: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    unready = "def mount(c, d): return MockTool('t')\nasync def on_session_ready(c): raise ValueError('why')"
    plan = {
        "providers": [{"module": "keeps", "config": {"path": str(log), "client_secret": "written-out"}}],
        "tools": ["good", "bad", "unready"],
    }
    modules = {"keeps": KEEPS, "good": GOOD, "bad": "1 / 0", "unready": unready}
    async with ObservedPlan(tmp_path, modules, plan=plan).connect(mode=mode) as client:
        session = (await read_json(client, STATUS))["session"]["id"]
        for _ in range(3):
            await client.call_tool("good", {})
    failure, late, start, end = read_json_lines(log)
    assert {line["session_id"] for line in read_json_lines(log)} == {session}
    assert (failure["data"]["module_id"], failure["data"]["module_type"]) == ("bad", "tools")
    assert "ZeroDivisionError" in failure["data"]["error"]
    assert (late["data"]["module_id"], late["event"]) == ("unready", "module:on_session_ready_failed")
    assert start["event"] == "session:start"
    assert start["data"]["config"]["providers"][0]["config"] == {"path": str(log), "client_secret": "[secret]"}
    assert end["event"] == "session:end"
    stats = end["data"]["stats"]
    assert (stats["calls"], stats["errors"]) == (3, 0)
    assert stats["duration_ms"] >= 0


async def test_each_session_counts_only_its_calls(tmp_path: Path) -> None:
    log = tmp_path / "log"
    plan = {"providers": [{"module": "keeps", "config": {"path": str(log)}}], "tools": ["good"]}
    async with ObservedPlan(tmp_path, {"keeps": KEEPS, "good": GOOD}, plan=plan).connect_clients(LEGACY) as (
        first,
        second,
    ):
        await first.call_tool("good", {})
        for _ in range(2):
            await second.call_tool("good", {})
    ends = [line["data"]["stats"]["calls"] for line in read_json_lines(log) if line["event"] == "session:end"]
    assert sorted(ends) == [1, 2]


async def test_in_a_worker_session_start_has_an_empty_plan(tmp_path: Path) -> None:
    log = tmp_path / "log"
    server = ServedPlan(tmp_path, {"keeps": KEEPS}, providers=[{"module": "keeps", "config": {"path": str(log)}}])
    source = server.source
    # A worker has these services. They cannot report updates.
    source.attach(SourceServices())
    with anyio.fail_after(TIMEOUT):
        async with anyio.create_task_group() as tasks:
            is_published = anyio.Event()
            tasks.start_soon(source.run, lambda offer: is_published.set())
            await is_published.wait()
            tasks.cancel_scope.cancel()
    assert json.loads(log.read_text().splitlines()[0])["data"]["config"] == {}


def test_data_that_contains_itself_is_copied() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    copy = copy_value({"loop": loop})["loop"]
    assert copy is not loop
    assert copy[1] is copy


async def test_problems_are_logged_once_for_all_clients(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with ObservedPlan(tmp_path, {"good": GOOD, "bad": "1 / 0"}).connect_clients(LEGACY, 4) as clients:
        for client in clients:
            await client.call_tool("good", {})
        assert (await read_json(clients[0], STATUS))["sessions"]["in_use"] == 4
    records = [record for record in caplog.records if record.name == "mcp_bridge.bridge"]
    assert len(records) == 1
