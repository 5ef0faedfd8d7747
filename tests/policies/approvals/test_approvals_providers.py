"""Modules with questions through an approval provider, like hooks-approval, ask the same user as hooks."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import anyio
import mcp_types as types
import pytest

from mcp_bridge import ToolRegistry
from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._integrations.amplifier.interfaces import ApprovalProvider, ApprovalRequest
from mcp_bridge._integrations.amplifier.mount_plan import read_plan
from mcp_bridge._integrations.amplifier.source import AmplifierSource
from mcp_bridge._integrations.amplifier.source.approval_provider import (
    REGISTER_CAPABILITY,
    BridgeApprovalProvider,
    register_approval_provider,
)
from mcp_bridge._policies.approvals.audit import AuditLog
from mcp_bridge._policies.approvals.gate import ApprovalGate
from mcp_bridge._policies.approvals.grants import GrantStore
from mcp_bridge._policies.approvals.policy import ApprovalPolicy
from mcp_bridge._storage.stores.memory import MemoryStore
from mcp_bridge.amplifier import ModuleCoordinator
from mcp_bridge.middleware import Pipeline
from mcp_bridge.serving import State
from mcp_bridge.testing import connect
from tests.kits.approvals.approvals_kit import ALWAYS, DENY, ONCE, OPTIONS, read_records
from tests.kits.constants import EVERY_ERA, STATELESS, TIMEOUT
from tests.kits.hooks.hooks_kit import ScriptedUser, get_texts
from tests.kits.questions.asking_kit import accept, get_code, get_text, serve_client

KEYS = ("a key of thirty-two bytes or more, for tests",)
SHELL = """
from mcp_bridge.amplifier.testing import MockTool

class Shell:
    name, description = "bash", "Runs."
    input_schema = {"type": "object", "properties": {"command": {"type": "string"}}}

    async def execute(self, input):
        return {"success": True, "output": "ran " + input["command"]}

async def mount(coordinator, config):
    await coordinator.mount("tools", Shell())
"""
GATE = """
import anyio
from mcp_bridge.amplifier import HookResult
from mcp_bridge._integrations.amplifier.interfaces import ApprovalRequest

class Gate:
    def __init__(self, config):
        self.provider, self.config, self.default = None, config, config.get("default_action", "deny")

    def register_provider(self, provider):
        self.provider = provider

    async def before(self, event, data):
        request = ApprovalRequest(
            tool_name=data["tool_name"],
            action="Execute: " + data["tool_input"]["command"],
            details=data["tool_input"],
            risk_level="high",
            timeout=self.config.get("default_timeout"),
        )
        try:
            response = await self._ask(request)
        except TimeoutError:
            return HookResult(action=self.default, reason="Approval request timed out")
        except Exception as error:
            return HookResult(action="deny", reason=f"Approval system error: {error}")
        if response.approved:
            return HookResult(action="continue")
        return HookResult(action="deny", reason=response.reason or "User denied approval")

    async def _ask(self, request):
        with anyio.fail_after(request.timeout):
            return await self.provider.request_approval(request)

async def mount(coordinator, config):
    gate = Gate(config)
    unregister = coordinator.hooks.register("tool:pre", gate.before, priority=-10, name="approval_hook")
    coordinator.register_capability("approval.register_provider", gate.register_provider)
    return unregister
"""


def build_bridge(
    folder: Path, *, hook_timeout: float = 30.0, policy: ApprovalPolicy | None = None, **config: Any
) -> Bridge:
    """Build a bridge with a shell, and a gate in front of it."""
    for name, text in (("shell", SHELL), ("gate", GATE)):
        (folder / f"{name}.py").write_text(dedent(text))
    plan = {
        "tools": [{"module": "shell", "source": "shell.py"}],
        "hooks": [{"module": "gate", "source": "gate.py", "config": config}],
    }
    mount_plan, problems = read_plan(plan)
    assert problems == []
    source = AmplifierSource("mine", mount_plan, config=plan, directory=folder, hook_timeout=hook_timeout)
    source.asking.policy = policy or ApprovalPolicy(options=OPTIONS)
    registry = ToolRegistry(pipeline=Pipeline(source.middleware))
    return Bridge(registry, [AttachedSource(source=source)], state=State(keys=KEYS))


async def run(client: Any, command: str = "ls") -> Any:
    """Run a command."""
    return await client.call_tool("bash", {"command": command})


@EVERY_ERA
@pytest.mark.parametrize("choice", [ONCE, DENY, "decline"])
async def test_the_user_decides_about_the_question_of_a_module(
    mode: str, choice: str, tmp_path: Path, forgotten: None
) -> None:
    user = ScriptedUser(choice)
    async with connect(build_bridge(tmp_path), mode=mode, elicitation_callback=user) as client:
        result = await run(client)
    assert user.asked[0].message == 'Execute: ls? (risk: high)\n- command (length 2): "ls"'
    if choice == ONCE:
        assert get_texts(result) == ["ran ls"]
    else:
        assert get_texts(result) == ["Tool 'bash' was denied: The user at the client declined this."]


async def test_a_decision_about_a_question_of_a_module_is_remembered_and_recorded(
    mode: str, tmp_path: Path, forgotten: None
) -> None:
    user, store, audit = ScriptedUser(ALWAYS), MemoryStore(), tmp_path / "audit"
    policy = ApprovalPolicy(options=OPTIONS, grants=GrantStore(store), audit=AuditLog(audit))
    async with connect(build_bridge(tmp_path, policy=policy), mode=mode, elicitation_callback=user) as client:
        for command in ("ls", "ls", "pwd"):
            assert get_texts(await run(client, command)) == [f"ran {command}"]
    assert len(user.asked) == 2
    assert [line["how"] for line in read_records(audit)] == ["elicitation", "remembered", "elicitation"]
    assert {grant.tool for grant in await GrantStore(store).list_grants()} == {"bash"}


@EVERY_ERA
async def test_the_time_of_the_user_does_not_count_against_the_timeout_of_the_hook(
    mode: str, tmp_path: Path, forgotten: None
) -> None:
    async def slow() -> Any:
        await anyio.sleep(3.2)
        return types.ElicitResult(action="accept", content={"value": ONCE})

    bridge = build_bridge(tmp_path, hook_timeout=3.0)
    async with connect(bridge, mode=mode, elicitation_callback=ScriptedUser(slow)) as client:
        assert get_texts(await run(client)) == ["ran ls"]


@pytest.mark.parametrize(("mode", "default"), [("legacy", "deny"), (STATELESS, "continue")])
async def test_a_request_of_a_module_has_a_timeout(mode: str, default: str, tmp_path: Path, forgotten: None) -> None:
    audit = tmp_path / "audit"

    async def never() -> Any:
        with anyio.move_on_after(4.5):
            await anyio.sleep_forever()
        return types.ElicitResult(action="cancel")

    policy = ApprovalPolicy(options=OPTIONS, audit=AuditLog(audit))
    bridge = build_bridge(tmp_path, policy=policy, default_timeout=3.0, default_action=default)
    async with connect(bridge, mode=mode, elicitation_callback=ScriptedUser(never)) as client:
        result = await run(client)
    # in the stateless era the late cancel arrives before the call runs by default
    assert result.is_error
    assert [line["how"] for line in read_records(audit)] == [
        "timeout",
        *(["elicitation"] if default == "continue" else []),
    ]


@pytest.mark.parametrize(
    ("answers", "code"),
    [({"q1": accept(value=DENY)}, "approval_declined"), ({"q1": accept(value=ONCE)}, None), ({}, None)],
)
async def test_a_late_denial_stops_what_the_module_allows_by_default(
    answers: Any, code: str | None, tmp_path: Path, forgotten: None, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve_client(build_bridge(tmp_path, default_timeout=0.5, default_action="continue")) as client:
        call = client.start_call("bash", {"command": "ls"})
        assert list(await call.get_questions()) == ["q1"]
        with anyio.fail_after(TIMEOUT):
            while "did not answer in time" not in caplog.text:  # noqa: ASYNC110 - only the log shows it
                await anyio.sleep(0.01)
        result = await call.get_result(answers)
    assert get_code(result) == code
    assert (get_text(result) == "ran ls") is (code is None)


async def test_a_call_is_denied_if_no_user_can_be_asked(mode: str, tmp_path: Path, forgotten: None) -> None:
    async with connect(build_bridge(tmp_path), mode=mode) as client:
        lines_of_result = get_texts(await run(client))
    assert lines_of_result == [
        "Tool 'bash' was denied: This call needs a user's approval. No user could be asked: the client does not "
        "support elicitation. Use a client that supports elicitation, and retry the call."
    ]


@pytest.mark.parametrize(("choice", "runs"), [(ONCE, True), (DENY, False)])
async def test_another_instance_resumes_a_question_of_a_module(
    choice: str, runs: bool, tmp_path: Path, forgotten: None
) -> None:
    first_bridge, second_bridge = build_bridge(tmp_path), build_bridge(tmp_path)
    async with serve_client(first_bridge) as first_client, serve_client(second_bridge) as second_client:
        call = first_client.start_call("bash", {"command": "ls"})
        assert list(await call.get_questions()) == ["q1"]
        result = await call.continue_on(second_client).get_result({"q1": accept(value=choice)})
        assert (get_text(result) == "ran ls") is runs
        assert get_code(result) == (None if runs else "denied")
        first_client.close_input()


async def test_every_module_gets_a_provider_before_and_after_its_registration() -> None:
    coordinator, providers = ModuleCoordinator(), []
    coordinator.register_capability(REGISTER_CAPABILITY, providers.append)
    register_approval_provider(coordinator, ApprovalGate())
    coordinator.register_capability(REGISTER_CAPABILITY, providers.append)
    coordinator.register_capability("another", providers.append)
    assert len(providers) == 2
    assert all(isinstance(provider, ApprovalProvider) for provider in providers)


async def test_a_module_that_offers_a_provider_gets_that_of_the_bridge(caplog: pytest.LogCaptureFixture) -> None:
    coordinator = ModuleCoordinator()
    register_approval_provider(coordinator, ApprovalGate())
    assert isinstance(coordinator.get_capability(REGISTER_CAPABILITY)(object()), BridgeApprovalProvider)
    assert "a module offers to ask for approvals; the bridge asks by itself" in caplog.text


async def test_a_module_that_fails_to_receive_its_provider_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def raising(provider: Any) -> None:
        raise SystemExit("no")

    async def later(provider: Any) -> None:
        """Never awaited."""

    coordinator = ModuleCoordinator()
    register_approval_provider(coordinator, ApprovalGate())
    for taker in (raising, later, 5):
        coordinator.register_capability(REGISTER_CAPABILITY, taker)
    assert caplog.text.count("raised when it received its provider") == 2
    assert "receives its provider in a coroutine" in caplog.text


async def test_a_request_outside_of_any_call_is_denied() -> None:
    request = ApprovalRequest(tool_name="add", action="Add", risk_level="", details={"n": object()})
    response = await BridgeApprovalProvider(ApprovalGate()).request_approval(request)
    assert (response.approved, response.remember) == (False, False)
    assert "No user could be asked" in str(response.reason)
