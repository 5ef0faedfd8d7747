"""A session: the results of mounts, failing modules, and its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._integrations.amplifier.hosts import create_session
from mcp_bridge._integrations.amplifier.mount_plan import read_plan
from mcp_bridge._integrations.amplifier.session import ModuleSession, is_provider, is_tool
from mcp_bridge._integrations.amplifier.source.resolver import Resolver
from mcp_bridge.amplifier.testing import EventRecorder, MockProvider, MockTool
from tests.kits.amplifier.amplifier_plans import BOTH_HOSTS, ServedPlan
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS

pytestmark = pytest.mark.usefixtures("forgotten", "host")
EVENTS = ("session:start", "session:end", "module:load_failed", "module:on_session_ready_failed")


class Begun:
    """A session of modules in files, begun."""

    def __init__(self, folder: Path, modules: dict[str, str], **plan: Any) -> None:
        ServedPlan(folder, modules, **plan)
        config = plan or {"tools": [{"module": name} for name in modules]}
        self.plan = read_plan(config)[0]
        self.session = create_session(ServedPlan.host, dict(config), Resolver(folder), [folder], lambda: None)
        self.coordinator = self.session.coordinator
        self.recorder = EventRecorder()
        for event in EVENTS:
            self.coordinator.hooks.register(event, self.recorder)

    async def __aenter__(self) -> ModuleSession:
        """Begin it."""
        await self.session.begin(self.plan)
        return self.session

    async def __aexit__(self, *_: object) -> None:
        """End it."""
        await self.session.end()


MOUNTS = {
    "a tool that is not mounted": ("def mount(c, d): return MockTool('t')", ["t"]),
    "a tool that is mounted": (
        "async def mount(c, d):\n    await c.mount('tools', t := MockTool('t'))\n    return t",
        ["t"],
    ),
    "a tool under another key": (
        "def mount(c, d):\n    c.mount('tools', t := MockTool('t'), name='k')\n    return t",
        ["k"],
    ),
    "nothing, with a tool": ("async def mount(c, d):\n    await c.mount('tools', MockTool('t'))", ["t"]),
    "nothing, with two tools": ("def mount(c, d):\n    for n in 'ab': c.mount('tools', MockTool(n))", ["a", "b"]),
    "nothing, with a direct write": ("def mount(c, d): c.mount_points['tools']['t'] = MockTool('t')", ["t"]),
    "something else, with a tool": (
        "def mount(c, d):\n    c.mount('tools', MockTool('t'))\n    return {'name': 1}",
        ["t"],
    ),
    "nothing, with a hook": ("def mount(c, d): c.hooks.register('x', lambda e, d: None)", []),
    "nothing, with a capability": ("def mount(c, d): c.register_capability('x', 1)", []),
    "nothing, with a contributor": ("def mount(c, d): c.register_contributor('x', 'y', list)", []),
    "nothing, with state": ("def mount(c, d): c.session_state['x'] = 1", []),
    "nothing, until it is ready": (
        "def mount(c, d): pass\ndef on_session_ready(c): c.mount('tools', MockTool('t'))",
        ["t"],
    ),
    "a cleanup": ("def mount(c, d): return lambda: None", []),
    "the end of a hook": ("def mount(c, d): return c.hooks.register('x', lambda e, d: None)", []),
}


ON_CORE = ["a tool under another key", "nothing, with a direct write", "nothing, with a hook", "nothing, with state"]
"""What amplifier-core's coordinator keeps in its own way."""


@pytest.mark.parametrize(
    ("what", "host"), [*((what, "native") for what in MOUNTS), *((what, "core") for what in ON_CORE)], indirect=["host"]
)
async def test_the_results_of_mount_have_many_forms(what: str, tmp_path: Path) -> None:
    text, tools = MOUNTS[what]
    async with Begun(tmp_path, {"mine": text}) as session:
        assert (list(session.get_tools()), session.problems) == (tools, [])


@pytest.mark.parametrize("answer", ["None", "{'name': 'x'}", "[MockTool('t')]"])
async def test_a_module_that_mounts_nothing_is_reported(answer: str, tmp_path: Path) -> None:
    async with Begun(tmp_path, {"idle": f"async def mount(c, d): return {answer}"}) as session:
        assert session.problems == ["idle: it mounted nothing. Check its configuration and the log"]


@BOTH_HOSTS
async def test_a_provider_is_registered_and_session_points_have_both_spellings(tmp_path: Path) -> None:
    modules = {
        "provides": "from mcp_bridge.amplifier.testing import MockProvider\ndef mount(c, d): return MockProvider()",
        "loops": "async def mount(c, d): await c.mount('session', 'loop', name='orchestrator')",
        "keeps": "async def mount(c, d): await c.mount('context', d)",
    }
    plan = {
        "providers": ["provides"],
        "session": {"orchestrator": "loops", "context": "keeps"},
        "context": {"config": {"a": 1}},
    }
    async with Begun(tmp_path, modules, **plan) as session:
        coordinator = session.coordinator
        assert session.problems == []
        assert list(coordinator.get("providers")) == ["mock"]
        assert coordinator.get("orchestrator") == coordinator.get_mounted("session", "orchestrator") == "loop"
        assert coordinator.get("session") == {"orchestrator": "loop", "context": {"a": 1}}


SYNC_AND_ASYNC = {
    "one": "def mount(c, d): return lambda: c.config['ended'].append('one')",
    "two": "def mount(c, d):\n    async def end(): c.config['ended'].append('two')\n    return end",
    "bad": "def mount(c, d):\n    def end(): raise SystemExit('no')\n    return end",
    "three": "def mount(c, d): c.register_cleanup(lambda: c.config['ended'].append('three'))",
}


@BOTH_HOSTS
async def test_cleanups_run_in_reverse_order_and_a_failing_one_stops_no_other(tmp_path: Path) -> None:
    cleanups: list[str] = []
    scene = Begun(tmp_path, SYNC_AND_ASYNC)
    scene.coordinator.config["ended"] = cleanups
    async with scene as session:
        assert (session.problems, cleanups) == ([], [])
    assert cleanups == ["three", "two", "one"]


BROKEN = {
    "raises": ("def mount(c, d): raise ValueError('why')", "mount failed: ValueError: why"),
    "ends": ("async def mount(c, d): raise SystemExit('why')", "mount failed: SystemExit: why"),
    "is no python": ("def", "cannot be imported: SyntaxError"),
    "answers what cannot be read": (
        "class Odd:\n    name = property(lambda self: 1 / 0)\ndef mount(c, d): return Odd()",
        "ZeroDivisionError: division by zero",
    ),
    "answers a tool without a name": (
        "def mount(c, d): return SimpleNamespace(name='', description='', execute=lambda i: i)",
        "the module has no name",
    ),
    "mounts nowhere": ("def mount(c, d): c.mount('nowhere', 1)", "Unknown mount point: nowhere"),
}


@pytest.mark.parametrize(("text", "problem"), BROKEN.values(), ids=BROKEN.keys())
async def test_a_failing_module_is_a_problem_and_the_others_serve(text: str, problem: str, tmp_path: Path) -> None:
    scene = Begun(tmp_path, {"broken": text, "good": "def mount(c, d): return MockTool('good')"})
    async with scene as session:
        assert list(session.get_tools()) == ["good"]
        assert len(session.problems) == 1
        assert session.problems[0].startswith("broken: ")
        assert problem in session.problems[0]
    [(_, data)] = scene.recorder.get_events("module:load_failed")
    assert (data["module_type"], data["module_id"]) == ("tools", "broken")
    assert problem in data["error"]


COLLIDING = {
    "mounted": "async def mount(c, d): await c.mount('tools', MockTool('same'))",
    "answered": "def mount(c, d): return MockTool('same')",
    "written": "def mount(c, d): c.mount_points['tools']['same'] = MockTool('same')",
    "updated": "def mount(c, d): c.get('tools').update(same=MockTool('same'))",
}


@pytest.mark.parametrize("text", COLLIDING.values(), ids=COLLIDING.keys())
@BOTH_HOSTS
async def test_two_modules_with_one_name_are_an_error_that_names_both(text: str, tmp_path: Path) -> None:
    async with Begun(tmp_path, {"first": COLLIDING["mounted"], "second": text}) as session:
        assert len(session.problems) == 1
        assert session.problems[0].startswith("second: ")
        assert "mount at 'tools': 'same' is already mounted" in session.problems[0]
        assert session.problems[0].endswith("The other belongs to module 'first'.")
        assert len(session.get_tools()) == 1


@BOTH_HOSTS
async def test_a_used_name_excludes_only_one_tool(tmp_path: Path) -> None:
    second = (
        "async def mount(c, d):\n    for name in ('before', 'same', 'after'): await c.mount('tools', MockTool(name))"
    )
    async with Begun(tmp_path, {"first": COLLIDING["mounted"], "second": second}) as session:
        assert sorted(session.get_tools()) == ["after", "before", "same"]
        assert session.find_owner("tools", "same") == "first"
        assert session.problems == [
            "second: mount at 'tools': 'same' is already mounted. Rename or remove one of them. The other belongs to "
            "module 'first'."
        ]
        assert session.list_unmounted() == []


@BOTH_HOSTS
async def test_a_module_may_unmount_another_and_use_its_name(tmp_path: Path) -> None:
    text = "async def mount(c, d):\n    await c.unmount('tools', 'same')\n    return MockTool('same', 'new')"
    async with Begun(tmp_path, {"first": COLLIDING["mounted"], "second": text}) as session:
        assert session.problems == []
        assert (await session.get_tools()["same"].execute({})).output == "new"


@BOTH_HOSTS
async def test_modules_are_ready_after_all_mounts_and_failures_are_reported(tmp_path: Path) -> None:
    modules = {
        "early": "def mount(c, d): pass\nasync def on_session_ready(c): c.session_state['seen'] = [*c.get('tools')]",
        "bad": "def mount(c, d): return MockTool('bad')\ndef on_session_ready(c): raise ValueError('why')",
        "late": "def mount(c, d): return MockTool('late')",
    }
    scene = Begun(tmp_path, modules)
    async with scene as session:
        assert session.coordinator.session_state == {"seen": ["bad", "late"]}
        assert session.problems == ["bad: on_session_ready failed: ValueError: why"]
        assert list(session.get_tools()) == ["bad", "late"]
    assert len(scene.recorder.get_events("module:on_session_ready_failed")) == 1


@BOTH_HOSTS
async def test_a_session_emits_its_start_and_its_end(tmp_path: Path) -> None:
    ended = "def mount(c, d): return lambda: c.config['ended'].append(1)"
    scene = Begun(tmp_path, {"mine": ended})
    scene.coordinator.config["ended"] = []
    async with scene:
        assert [event for event, _ in scene.recorder.events] == ["session:start"]
        _, data = scene.recorder.events[0]
        assert data["session_id"] == scene.coordinator.session_id
        assert data["config"]["tools"]
    assert [event for event, _ in scene.recorder.events] == ["session:start", "session:end"]
    assert scene.coordinator.config["ended"] == [1]


@BOTH_LOOPS
async def test_a_hook_that_hangs_at_session_end_does_not_prevent_cleanup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_bridge._integrations.amplifier.session.CLEANUP_TIMEOUT", 0.05)
    text = "import anyio\ndef mount(c, d):\n    c.hooks.register('session:end', lambda e, d: anyio.sleep_forever())\n"
    scene = Begun(tmp_path, {"mine": f"{text}    return lambda: c.config['ended'].append(1)"})
    scene.coordinator.config["ended"] = []
    with anyio.fail_after(TIMEOUT):
        async with scene:
            pass
    assert scene.coordinator.config["ended"] == [1]


@BOTH_HOSTS
@BOTH_LOOPS
async def test_session_end_is_emitted_when_the_bridge_is_cancelled(tmp_path: Path) -> None:
    text = "import anyio\ndef mount(c, d):\n    async def end():\n        await anyio.sleep(0)\n        c.ended = 1\n"
    text += "    return end"
    server = ServedPlan(tmp_path, {"mine": text, "tool": "def mount(c, d): return MockTool('t')"})
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            async with server.run_bridge():
                tasks.cancel_scope.cancel()
                await anyio.sleep_forever()

        tasks.start_soon(serve)
    assert server.coordinator.ended


async def test_a_plan_that_mounts_nothing_at_all_ends_the_source(tmp_path: Path) -> None:
    server = ServedPlan(tmp_path, {"idle": "def mount(c, d): pass", "bad": "1 / 0"})
    with pytest.raises(SourceError) as caught:
        async with server.run_bridge():
            pass
    lines = str(caught.value).splitlines()
    assert (len(lines), lines[0][:5], lines[1][:4]) == (2, "idle:", "bad:")


@BOTH_HOSTS
async def test_a_plan_of_hooks_alone_is_served_with_its_problems(tmp_path: Path) -> None:
    hook = "def mount(c, d): c.hooks.register('tool:pre', lambda e, d: None)"
    server = ServedPlan(tmp_path, {"hook": hook, "bad": "1 / 0"})
    async with server.run_bridge():
        assert len(server.problems) == 1
        assert server.coordinator.hooks.has_handlers("tool:pre")


def test_tools_and_providers_are_recognized_by_their_shape() -> None:
    assert (is_tool(MockTool()), is_provider(MockTool())) == (True, False)
    assert (is_tool(MockProvider()), is_provider(MockProvider())) == (False, True)
    assert not any(map(is_tool, (None, print, {"name": "x"}, "text")))
