"""Each client has its own session: the state of modules for one client is not visible to another."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client

from mcp_bridge import ToolCall, ToolEntry, ToolRegistry
from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._integrations.amplifier.sessions.module_sessions import SessionLimits
from mcp_bridge.testing import connect
from tests.kits.amplifier.amplifier_plans import BOTH_HOSTS, ServedPlan
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS

pytestmark = pytest.mark.usefixtures("forgotten", "host")

NOTES = """
from pathlib import Path

class Note:
    name, description = "note", "Notes a word; answers with all words so far."
    input_schema = {"type": "object", "properties": {"word": {"type": "string"}}}

    def __init__(self, coordinator): self.coordinator = coordinator

    async def execute(self, input):
        words = self.coordinator.session_state.setdefault("words", [])
        words.append(input["word"])
        return {"success": True, "output": {"words": words}}

class Same(Note):
    name = "note_in_thread"

    def execute(self, input):
        words = self.coordinator.session_state.setdefault("words", [])
        words.append(input["word"])
        return {"success": True, "output": {"words": words}}

async def mount(coordinator, config):
    coordinator.mount("tools", Note(coordinator))
    coordinator.mount("tools", Same(coordinator))
    log = Path(config["log"])
    with log.open("a") as file: file.write("begun\\n")
    def ended():
        with log.open("a") as file: file.write("ended\\n")
    return ended
"""
COUNTS = """
async def mount(coordinator, config):
    seen = []
    def before(event, data):
        seen.append(data["tool_name"])
        return HookResult(action="inject_context", context_injection=f"call {len(seen)} in {data['session_id']}")
    return coordinator.hooks.register("tool:pre", before)
"""


class Noting(ServedPlan):
    """A source with stateful modules and a file of the starts and ends of its sessions."""

    def __init__(self, folder: Path, **limits: Any) -> None:
        self.log = folder / "sessions.txt"
        plan = {"tools": [{"module": "notes", "config": {"log": str(self.log)}}], "hooks": [{"module": "counts"}]}
        super().__init__(folder, {"notes": NOTES, "counts": COUNTS}, limits=SessionLimits(**limits), **plan)

    def sessions(self, what: str) -> int:
        """How many have begun, or have ended."""
        return self.log.read_text().splitlines().count(what)

    async def until_ended(self, count: int) -> None:
        """Wait until so many sessions have ended."""
        while self.sessions("ended") < count:  # noqa: ASYNC110 - the modules write a file
            await anyio.sleep(0.01)


@pytest.fixture
def noting(tmp_path: Path) -> Noting:
    """Create the source; each client has its own session."""
    return Noting(tmp_path)


async def call_note(client: Client, word: str, tool: str = "note", **options: Any) -> list[str]:
    """Return the notes of a client's session with this word."""
    result = await client.call_tool(tool, {"word": word}, **options)
    assert not result.is_error, result.content
    words: list[str] = result.structured_content["words"]
    return words


async def wait_until(so: Callable[[], bool]) -> None:
    """Wait for a condition, and collect garbage meanwhile."""
    while not so():
        gc.collect()
        await anyio.sleep(0.01)


@contextlib.asynccontextmanager
async def connect_two(server: ServedPlan, mode: str) -> AsyncIterator[tuple[Client, Client]]:
    """Connect two clients to one bridge."""
    with anyio.fail_after(TIMEOUT):
        async with (
            server.run_bridge(),
            connect(server.bridge.registry, mode=mode) as first,
            connect(server.bridge.registry, mode=mode) as second,
        ):
            yield first, second


@pytest.mark.parametrize("tool", ["note", "note_in_thread"])
@BOTH_HOSTS
async def test_two_connected_clients_do_not_see_each_others_state(noting: Noting, tool: str) -> None:
    async with connect_two(noting, "legacy") as (first, second):
        assert await call_note(first, "a", tool) == ["a"]
        assert await call_note(second, "b", tool) == ["b"]
        assert await call_note(first, "c", tool) == ["a", "c"]
        assert noting.sessions("begun") == 2


async def test_hooks_have_their_state_for_each_client(noting: Noting) -> None:
    async with connect_two(noting, "legacy") as (one, other):
        first = (await one.call_tool("note", {"word": "a"})).content[-1].text
        second = (await other.call_tool("note", {"word": "a"})).content[-1].text
        assert first.startswith("call 1 in ")
        assert second.startswith("call 1 in ")
        assert first != second


async def test_stateless_clients_share_a_session_unless_they_name_theirs(noting: Noting) -> None:
    async with connect_two(noting, "2026-07-28") as (first, second):
        assert await call_note(first, "a") == ["a"]
        assert await call_note(second, "b") == ["a", "b"]
        mine, yours = ({"mcp-bridge/session": name} for name in ("mine", "yours"))
        assert await call_note(first, "c", meta=mine) == ["c"]
        assert await call_note(second, "d", meta=yours) == ["d"]
        assert await call_note(second, "e", meta=mine) == ["c", "e"]


@pytest.mark.parametrize("name", ["", 7, "x" * 257])
async def test_invalid_names_of_sessions_are_ignored(noting: Noting, name: Any) -> None:
    async with connect_two(noting, "2026-07-28") as (first, second):
        assert await call_note(first, "a") == ["a"]
        assert await call_note(second, "b", meta={"mcp-bridge/session": name}) == ["a", "b"]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_all_clients_share_a_session_if_the_settings_require_it(tmp_path: Path, mode: str) -> None:
    noting = Noting(tmp_path, shared=True)
    async with connect_two(noting, mode) as (first, second):
        assert await call_note(first, "a", meta={"mcp-bridge/session": "mine"}) == ["a"]
        assert await call_note(second, "b") == ["a", "b"]
    assert (noting.sessions("begun"), noting.sessions("ended")) == (1, 1)


@BOTH_HOSTS
@BOTH_LOOPS
async def test_a_session_ends_when_its_client_has_left(noting: Noting) -> None:
    with anyio.fail_after(TIMEOUT):
        async with noting.run_bridge():
            async with connect(noting.bridge.registry, mode="legacy") as first:
                await call_note(first, "a")
                async with connect(noting.bridge.registry, mode="legacy") as second:
                    await call_note(second, "b")
                await noting.until_ended(1)
                assert await call_note(first, "c") == ["a", "c"]
            async with connect(noting.bridge.registry, mode="legacy") as third:
                assert await call_note(third, "d") == ["d"]
        assert noting.sessions("begun") == noting.sessions("ended") == 3


@BOTH_LOOPS
async def test_an_idle_session_ends_and_its_client_gets_a_new_one(tmp_path: Path) -> None:
    noting = Noting(tmp_path, idle_timeout=0.1)
    async with connect_two(noting, "legacy") as (first, second):
        await call_note(first, "a")
        await call_note(second, "b")
        await noting.until_ended(1)
        assert await call_note(second, "c") == ["c"]


async def test_the_session_that_was_idle_the_longest_ends_for_a_new_one(tmp_path: Path) -> None:
    noting = Noting(tmp_path, limit=2)
    async with connect_two(noting, "2026-07-28") as (first, _):
        for name in ("a", "b", "a", "c"):
            await call_note(first, name, meta={"mcp-bridge/session": name})
        await noting.until_ended(1)
        assert await call_note(first, "again", meta={"mcp-bridge/session": "a"}) == ["a", "a", "again"]
        assert await call_note(first, "again", meta={"mcp-bridge/session": "b"}) == ["again"]


WAITS = """
import anyio

class Wait:
    name, description = "wait", "Waits for ever."
    input_schema = {"type": "object"}

    def __init__(self, coordinator): self.coordinator = coordinator

    async def execute(self, input):
        self.coordinator.session_state["waits"] = True
        await anyio.sleep_forever()

async def mount(coordinator, config):
    coordinator.mount("tools", Wait(coordinator))
    coordinator.mount("tools", MockTool("quick", "done"))
"""


@BOTH_LOOPS
async def test_a_new_client_is_rejected_while_all_sessions_are_in_use(tmp_path: Path) -> None:
    server = ServedPlan(tmp_path, {"waits": WAITS}, limits=SessionLimits(limit=1), tools=["waits"])
    async with connect_two(server, "2026-07-28") as (first, second), anyio.create_task_group() as tasks:
        tasks.start_soon(first.call_tool, "wait", {})
        while not server.coordinator.session_state.get("waits"):
            await anyio.lowlevel.checkpoint()
        rejection = await second.call_tool("quick", {}, meta={"mcp-bridge/session": "mine"})
        assert rejection.meta["mcp-bridge/code"] == "overloaded"
        assert not (await second.call_tool("quick", {})).is_error
        tasks.cancel_scope.cancel()


BREAKS = """
MOUNTED = []

async def mount(coordinator, config):
    MOUNTED.append(1)
    if len(MOUNTED) > 1:
        raise ValueError("once is enough")
    coordinator.mount("tools", MockTool("mine", "done"))
    coordinator.hooks.register("tool:pre", lambda event, data: None)
"""


@pytest.mark.parametrize(
    ("section", "code", "problem"),
    [
        ("tools", "tool_unavailable", "The tool mounted as 'mine' is not mounted in this session."),
        ("hooks", "denied", "Tool 'mine' was denied: the hooks of 'breaks' are not in place"),
    ],
)
@BOTH_HOSTS
async def test_a_module_that_cannot_be_mounted_again_is_missing_in_this_session_only(
    tmp_path: Path, section: str, code: str, problem: str
) -> None:
    server = ServedPlan(tmp_path, {"breaks": BREAKS}, **{section: ["breaks"]})
    async with connect_two(server, "legacy") as (first, second):
        assert not (await first.call_tool("mine", {})).is_error
        failure = await second.call_tool("mine", {})
        assert failure.meta["mcp-bridge/code"] == code
        assert problem in failure.content[0].text
        assert not (await first.call_tool("mine", {})).is_error


@BOTH_LOOPS
async def test_concurrent_first_calls_of_one_client_start_one_session(noting: Noting) -> None:
    async with connect_two(noting, "legacy") as (first, second):
        await call_note(first, "first")
        async with anyio.create_task_group() as tasks:
            for n in range(10):
                tasks.start_soon(call_note, second, str(n))
        assert len(await call_note(second, "last")) == 11
        assert noting.sessions("begun") == 2


async def test_calls_in_process_have_a_session_too(noting: Noting) -> None:
    with anyio.fail_after(TIMEOUT):
        async with noting.run_bridge():
            registry = noting.bridge.registry
            for tool in ("note", "note_in_thread"):
                assert (await registry.ainvoke(tool, {"word": tool})).ok
            result = await registry.dispatch(
                ToolCall(id="1", name="note", arguments={"word": "c"}), RunningCall(session="mine")
            )
            assert result.output == {"words": ["c"]}


HOOKED_TOOL = """
async def mount(coordinator, config):
    coordinator.hooks.register("tool:pre", lambda event, data: None)
    coordinator.mount("tools", MockTool("mine", "done"))
"""


@pytest.mark.parametrize(
    ("module", "code"), [(HOOKED_TOOL, "denied"), (HOOKED_TOOL.replace("coordinator.hooks", "# "), None)]
)
@BOTH_HOSTS
async def test_after_the_end_of_a_source_with_hooks_calls_are_denied(
    tmp_path: Path, module: str, code: str | None
) -> None:
    server = ServedPlan(tmp_path, {"one": module})
    server.bridge.registry.register(ToolEntry("own", "Answers.", lambda data: "ran", {"type": "object"}))
    async with server.run_bridge():
        assert (await server.bridge.registry.ainvoke("own", {})).ok
    after = await server.bridge.registry.dispatch(ToolCall(id="1", name="own", arguments={}), RunningCall())
    assert after.code == code


@BOTH_HOSTS
async def test_an_ended_session_is_released_while_its_client_is_connected(tmp_path: Path) -> None:
    noting, folder = Noting(tmp_path, limit=1), []
    make = noting.source.sessions._create
    noting.source.sessions._create = lambda *value: folder.append(make(*value)) or folder[-1]  # type: ignore[func-returns-value]
    async with connect_two(noting, "legacy") as (first, second):
        for client in (first, second, first):
            await call_note(client, "a")
        await noting.until_ended(1)
        values = [weakref.ref(session) for session in folder]
        folder.clear()
        await wait_until(lambda: values[1]() is None)
        assert values[2]() is not None


SLOW_AGAIN = """
import anyio
MOUNTED = []

async def mount(coordinator, config):
    MOUNTED.append(1)
    if len(MOUNTED) > 1:
        await anyio.sleep_forever()
    coordinator.mount("tools", MockTool("mine", "done"))
"""


@BOTH_LOOPS
async def test_a_call_that_waits_for_its_session_ends_with_the_source(tmp_path: Path) -> None:
    server, codes = ServedPlan(tmp_path, {"slow": SLOW_AGAIN}), []

    async def call(session: str) -> None:
        call, ctx = ToolCall(id="1", name="mine", arguments={}), RunningCall(session=session)
        codes.append((await server.bridge.registry.dispatch(call, ctx)).code)

    with anyio.fail_after(TIMEOUT):
        async with anyio.create_task_group() as tasks, server.run_bridge():
            await call("first")
            tasks.start_soon(call, "second")
            while server.source.sessions.in_use < 2:
                await anyio.lowlevel.checkpoint()
    assert codes == [None, "tool_unavailable"]


LONG = """
import anyio

class Long:
    name, description, over = "long", "Is longer at work than a session may be idle.", False
    input_schema = {"type": "object"}

    async def execute(self, input):
        await anyio.sleep(0.5)
        return {"success": True, "output": "cleaned up" if self.over else "whole"}

async def mount(coordinator, config):
    long = Long()
    coordinator.mount("tools", long)
    coordinator.register_cleanup(lambda: setattr(long, "over", True))
"""


@BOTH_LOOPS
async def test_calls_keep_their_session_alive_without_hooks(tmp_path: Path) -> None:
    server = ServedPlan(tmp_path, {"long": LONG}, limits=SessionLimits(idle_timeout=0.02))
    # A worker has no middleware.
    server.bridge = Bridge(ToolRegistry(), sources=[AttachedSource(source=server.source)])
    async with server.run_bridge():
        for session in ("first", "second"):
            call, ctx = ToolCall(id="1", name="long", arguments={}), RunningCall(session=session)
            assert (await server.bridge.registry.dispatch(call, ctx)).output == "whole"
