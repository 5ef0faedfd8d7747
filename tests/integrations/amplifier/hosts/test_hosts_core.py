"""amplifier-core as the host: its coordinator and loader with modules for it."""

from __future__ import annotations

import gc
import logging
import weakref
from importlib.metadata import EntryPoint
from pathlib import Path

import amplifier_core
import pytest
from amplifier_core.validation import ContextValidator, HookValidator, ToolValidator

from tests.kits.hosts.hosts_kit import CONTEXT, HOOK, TOOL, HostedSession, write_package

pytestmark = pytest.mark.usefixtures("forgotten")
MODULES = {
    "session": {"context": {"module": "context-mine", "source": "amplifier-module-context-mine"}},
    "tools": [{"module": "tool-greet", "source": "amplifier-module-tool-greet", "config": {"greeting": "Hi"}}],
    "hooks": [{"module": "hooks-manners", "source": "amplifier-module-hooks-manners"}],
}


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """Return a folder with a tool, a hook and a context that fulfil the contracts."""
    for module_id, text in (("tool-greet", TOOL), ("hooks-manners", HOOK), ("context-mine", CONTEXT)):
        write_package(tmp_path, module_id, text)
    return tmp_path


async def test_modules_are_mounted_on_amplifier_cores_own_coordinator_by_its_own_loader(
    modules: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with HostedSession(modules, "core", MODULES) as session:
        assert session.problems == []
        assert isinstance(session.coordinator, amplifier_core.ModuleCoordinator)
        assert isinstance(session.coordinator.loader, amplifier_core.ModuleLoader)
        answer = await session.get_tools()["greet"].execute({"who": "you"})
        assert (type(answer), answer.output) == (amplifier_core.ToolResult, "Hi, you!")
        assert session.hooks.list_handlers() == {"tool:pre": ["manners"]}
        assert (await session.hooks.emit("tool:pre", {"tool_input": {"who": "enemy"}})).reason == "not them"
    for module_id in ("tool-greet", "hooks-manners", "context-mine"):
        assert f"[module:validated] {module_id}" in caplog.text
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


async def test_the_validators_of_amplifier_core_accept_these_modules(modules: Path) -> None:
    for validator, module_id in (
        (ToolValidator, "tool-greet"),
        (HookValidator, "hooks-manners"),
        (ContextValidator, "context-mine"),
    ):
        name = f"amplifier_module_{module_id.replace('-', '_')}"
        result = await validator().validate(modules / f"amplifier-module-{module_id}" / name)
        assert result.passed, result.summary()


async def test_modules_that_fail_the_validation_are_mounted_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = TOOL.replace('return "greet"', "return self.coordinator.session_state.setdefault('name', '')")
    write_package(tmp_path, "tool-odd", f"{text}\n    coordinator.session_state['name'] = 'late'\n")
    plan = {"tools": [{"module": "tool-odd", "source": "amplifier-module-tool-odd"}]}
    write_package(
        tmp_path, "tool-nothing", "async def mount(coordinator, config=None): coordinator.hooks.on('x', print)"
    )
    plan["tools"].append({"module": "tool-nothing", "source": "amplifier-module-tool-nothing"})
    async with HostedSession(tmp_path, "core", plan) as session:
        assert session.hooks.has_handlers("x")
    assert "mounting module 'tool-nothing', which fails the validation of amplifier-core: " in caplog.text


async def test_single_files_and_synchronous_mounts_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "single.py").write_text(TOOL.replace("async def mount", "def mount").replace("await ", ""))
    async with HostedSession(tmp_path, "core", {"tools": [{"module": "one", "source": "single.py"}]}) as session:
        assert (session.problems, list(session.get_tools())) == ([], ["greet"])


async def test_amplifier_cores_loader_loads_modules_of_other_languages(tmp_path: Path) -> None:
    root = tmp_path / "amplifier-module-tool-rusty"
    root.mkdir()
    (root / "amplifier.toml").write_text('[module]\nname = "rusty"\ntransport = "grpc"\n')
    plan = {"tools": [{"module": "tool-rusty", "source": root.name}]}
    async with HostedSession(tmp_path, "core", plan) as session:
        assert session.problems[0].startswith("tool-rusty: module 'tool-rusty' cannot be mounted: mount failed: ")
        assert "has no package" not in session.problems[0]


async def test_a_module_may_load_another_through_the_loader(modules: Path) -> None:
    write_package(
        modules,
        "tool-opens",
        """
        async def mount(coordinator, config=None):
            source = "amplifier-module-tool-greet"
            mount = await coordinator.loader.load("tool-greet", {}, source_hint=source, coordinator=coordinator)
            await mount(coordinator)

        async def on_session_ready(coordinator):
            coordinator.config["ended"].append("ready")
        """,
    )
    session_host = HostedSession(
        modules, "core", {"tools": [{"module": "tool-opens", "source": "amplifier-module-tool-opens"}]}
    )
    async with session_host as session:
        assert (session.problems, list(session.get_tools()), session_host.ended) == ([], ["greet"], ["ready"])


async def test_an_installed_entry_point_is_found_by_both_loaders(
    modules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(modules / "amplifier-module-tool-greet"))
    point = EntryPoint("greets", "amplifier_module_tool_greet:mount", "amplifier.modules")
    for where in ("mcp_bridge._integrations.amplifier.loader.entry_points", "importlib.metadata.entry_points"):
        monkeypatch.setattr(where, lambda group: [point])
    async with HostedSession(modules, "core", {"tools": ["greets"]}) as session:
        assert (session.problems, list(session.get_tools())) == ([], ["greet"])
        cleanup = await session.coordinator.loader.load("greets", {}, coordinator=session.coordinator)
        await session.coordinator.unmount("tools", "greet")
        await cleanup(session.coordinator)
        assert list(session.get_tools()) == ["greet"]
        with pytest.raises(Exception, match="nowhere"):
            await session.coordinator.loader.load("nowhere", {}, coordinator=session.coordinator)


async def test_no_object_of_a_session_remains_after_its_end(modules: Path) -> None:
    session_host = HostedSession(modules, "core", MODULES)
    async with session_host as session:
        session.coordinator.register_capability("me", session.coordinator)
        session.coordinator.register_contributor("all", "me", lambda held=session.coordinator: held)
        session.coordinator.session_state["me"] = session.coordinator
        dead = weakref.ref(session.coordinator)
        del session
    assert session_host.coordinator.to_dict()["tools"] == []
    del session_host
    gc.collect()
    assert dead() is None
