"""The included modules on amplifier-core alone, and under its validators and behavior tests."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import amplifier_core
import pytest
from amplifier_core import testing as core_kit
from amplifier_core import validation
from amplifier_core.validation import behavioral

from mcp_bridge._integrations.amplifier.behavior import (
    ContextBehaviorTests,
    ModuleBehaviorTests,
    OrchestratorBehaviorTests,
    ProviderBehaviorTests,
    find_violations,
)
from mcp_bridge._integrations.amplifier.contexts import persistent, simple
from mcp_bridge._integrations.amplifier.loops import basic, streaming
from mcp_bridge._integrations.amplifier.providers import sampling_provider, scripted_provider
from mcp_bridge.amplifier.testing import MockApprovals, MockProvider, MockTool
from tests.integrations.amplifier.behavior.test_own_modules import CALL

PLAN: dict[str, Any] = {"session": {"orchestrator": {"module": "loop"}, "context": {"module": "context"}}}
LOOPS, CONTEXTS = (basic, streaming), (simple, persistent)
PROVIDERS = (scripted_provider, sampling_provider)


@pytest.fixture(autouse=True)
def use_temporary_folders(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


class _OnSession(ModuleBehaviorTests):
    """Mounts on the coordinator of an AmplifierSession, without anything of the bridge."""

    host = "core"

    def create_coordinator(self) -> Any:
        approvals = MockApprovals()
        self.session = amplifier_core.AmplifierSession(PLAN, approval_system=approvals)
        self.session.coordinator.approvals = approvals
        return self.session.coordinator


class OrchestratorsOnSession(_OnSession, OrchestratorBehaviorTests):
    pass


class ContextsOnSession(_OnSession, ContextBehaviorTests):
    pass


class ProvidersOnSession(_OnSession, ProviderBehaviorTests):
    pass


@pytest.mark.parametrize(
    ("suite", "module", "attributes"),
    [
        *((OrchestratorsOnSession, module, {}) for module in LOOPS),
        (ContextsOnSession, simple, {}),
        (ProvidersOnSession, scripted_provider, {"situations": {"tool_call": CALL}}),
    ],
)
async def test_modules_follow_their_contracts_on_amplifier_core(suite: Any, module: Any, attributes: Any) -> None:
    assert await find_violations(suite, module, **attributes) == {}


class _Loader:
    """Loads modules by the names in a plan, for a session of amplifier-core."""

    def __init__(self, **modules: Any) -> None:
        self._modules = modules

    async def load(self, module_id: str, config: Any = None, source_hint: Any = None, coordinator: Any = None) -> Any:
        async def mount(coordinator: Any) -> Any:
            return await self._modules[module_id].mount(coordinator, config or {})

        return mount

    def get_on_session_ready_queue(self) -> list[Any]:
        return []

    def clear_on_session_ready_queue(self) -> None: ...


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("context", CONTEXTS)
async def test_a_session_of_amplifier_core_executes_with_them(loop: Any, context: Any) -> None:
    tool, records = MockTool("measure", "3 cm"), []

    async def mount_tool(coordinator: Any, config: Any) -> None:
        await coordinator.mount("tools", tool, name="measure")

    async def record(event: str, data: dict[str, Any]) -> Any:
        records.append(event)
        return amplifier_core.HookResult()

    responses = [*CALL["responses"], "It is three centimetres."]
    plan = {
        **PLAN,
        "providers": [{"module": "provider", "config": {"responses": responses}}],
        "tools": [{"module": "tool"}],
    }
    session = amplifier_core.AmplifierSession(plan)
    modules = {"loop": loop, "context": context, "provider": scripted_provider}
    session.coordinator.loader = _Loader(**modules, tool=SimpleNamespace(mount=mount_tool))
    await session.initialize()
    for event in ("provider:request", "provider:response", "tool:pre", "tool:post", "orchestrator:complete"):
        session.coordinator.hooks.register(event, record)
    assert await session.execute("How large is it?") == "It is three centimetres."
    request = ["provider:request", "provider:response"]
    assert records == [*request, "tool:pre", "tool:post", *request, "orchestrator:complete"]
    messages = await session.coordinator.get("context").get_messages()
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert (messages[2]["content"], tool.inputs) == ("3 cm", [{"unit": "cm"}])
    await session.cleanup()


@pytest.mark.parametrize(
    ("validator", "module"),
    [
        *((validation.OrchestratorValidator, module) for module in LOOPS),
        *((validation.ContextValidator, module) for module in CONTEXTS),
        *((validation.ProviderValidator, module) for module in PROVIDERS),
    ],
)
async def test_the_validators_of_amplifier_core_accept_them(validator: Any, module: Any) -> None:
    result = await validator().validate(module.__name__)
    assert result.passed, [check.message for check in result.checks if not check.passed]


async def run_behavior_tests(tests: Any, **fixtures: Any) -> None:
    """Run the behavior tests of amplifier-core, with the values of its pytest plugin's fixtures."""
    names = [name for name in dir(tests) if name.startswith("test_")]
    assert names
    for name in names:
        test = getattr(tests, name)
        await test(**{parameter: fixtures[parameter] for parameter in inspect.signature(test).parameters})


@pytest.mark.parametrize("module", LOOPS)
async def test_orchestrators_pass_the_behavior_tests_of_amplifier_core(module: Any) -> None:
    coordinator = core_kit.MockCoordinator()
    await module.mount(coordinator, {})
    tools = {"test_tool": core_kit.MockTool(name="test_tool", output="test result")}
    deps = (core_kit.MockContextManager(), {"default": MockProvider()}, tools, core_kit.EventRecorder())
    mounted = coordinator.mount_points["orchestrator"]
    await run_behavior_tests(behavioral.OrchestratorBehaviorTests(), orchestrator_module=mounted, mock_deps=deps)


@pytest.mark.parametrize("module", CONTEXTS)
async def test_contexts_pass_the_behavior_tests_of_amplifier_core(module: Any) -> None:
    tests = behavioral.ContextBehaviorTests()
    for name in [name for name in dir(tests) if name.startswith("test_")]:
        coordinator = core_kit.MockCoordinator()
        await module.mount(coordinator, {})
        context = coordinator.mount_points["context"]
        await context.clear()
        await getattr(tests, name)(context)


@asynccontextmanager
async def open_provider(suite: Any, module: Any) -> AsyncIterator[Any]:
    """Return a provider with a list of models, on the mock of amplifier-core."""
    tests = suite()
    tests.module, tests.create_coordinator = module, core_kit.MockCoordinator
    async with tests.open_situation("models") as provider:
        yield provider


@pytest.mark.parametrize(
    ("suite", "module"), [(ProviderBehaviorTests, scripted_provider), (ProviderBehaviorTests, sampling_provider)]
)
async def test_providers_pass_the_behavior_tests_of_amplifier_core(suite: Any, module: Any) -> None:
    async with open_provider(suite, module) as provider:
        await run_behavior_tests(behavioral.ProviderBehaviorTests(), provider_module=provider)
