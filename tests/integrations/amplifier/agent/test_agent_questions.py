"""Questions of hooks about an agent's run, outside of its tools: the user of the client decides, in both eras."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._policies.approvals.audit import AuditLog
from mcp_bridge._policies.approvals.grants import GrantStore
from mcp_bridge._policies.approvals.policy import ApprovalPolicy
from mcp_bridge._storage.stores.memory import MemoryStore
from tests.integrations.amplifier.agent.test_agent_tool import FILES, get_history, name_module
from tests.integrations.amplifier.agent.test_public_shapes import PACKAGES
from tests.kits.amplifier.amplifier_plans import BOTH_HOSTS, ServedPlan
from tests.kits.amplifier.public_shapes import write_shape
from tests.kits.constants import EVERY_ERA
from tests.kits.hooks.hooks_kit import LOGS, ScriptedUser, get_code, get_texts

DECIDES = """
async def mount(coordinator, config):
    async def decide(event, data):
        return HookResult(**config["result"])

    coordinator.hooks.register(config["event"], decide)
"""
FAILS = """
import anyio

async def mount(coordinator, config):
    async def fail(event, data):
        if config["hangs"]:
            await anyio.sleep_forever()
        raise ValueError("broken")

    coordinator.hooks.register(config["event"], fail, name="guard")
"""
ASKS = {"action": "ask_user", "approval_prompt": "May it?"}
INJECTS = {"action": "inject_context", "context_injection": "Be brief.", "context_injection_role": "system"}
EVENTS = pytest.mark.parametrize(
    "event", ["prompt:submit", "provider:request", "provider:response", "orchestrator:complete"]
)


def serve(folder: Path, *responses: Any, hook: str = DECIDES, **config: Any) -> ServedPlan:
    """Serve a plan with an agent and a hook module."""
    files, decides = name_module(folder, "files"), name_module(folder, "decides")
    plan: dict[str, Any] = {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": [{"module": "provider-scripted", "config": {"responses": list(responses)}}],
        "tools": [{"module": files}],
        "hooks": [{"module": decides, "config": config}],
    }
    return ServedPlan(folder, {files: FILES, decides: hook}, **plan)


@EVERY_ERA
@BOTH_HOSTS
@EVENTS
@pytest.mark.parametrize("choice", ["Allow", "Deny"])
async def test_the_user_decides_about_an_event_of_a_run(
    event: str, choice: str, host: str, mode: str, tmp_path: Path
) -> None:
    server, user = serve(tmp_path, "It says hello.", event=event, result=ASKS), ScriptedUser(choice)
    async with server.connect(mode=mode, elicitation_callback=user) as client:
        result = await client.call_tool("run_agent", {"task": "Read."})
    assert user.prompts == ["May it?"]
    assert result.is_error == (choice == "Deny")
    assert ("It says hello." in "".join(get_texts(result))) == (choice == "Allow")
    if choice == "Deny":
        assert get_code(result) == "agent_stopped"
        assert "was denied: The user declined" in get_texts(result)[0]


@EVENTS
@pytest.mark.parametrize("default", ["allow", "deny"])
async def test_the_default_of_the_hook_applies_for_a_client_that_cannot_ask(
    event: str, default: str, tmp_path: Path
) -> None:
    async with serve(
        tmp_path, "It says hello.", event=event, result={**ASKS, "approval_default": default}
    ).connect() as client:
        result = await client.call_tool("run_agent", {"task": "Read."})
    assert result.is_error == (default == "deny")
    if default == "deny":
        assert "the client does not support elicitation" in get_texts(result)[0]


@BOTH_HOSTS
@EVENTS
async def test_an_injected_text_reaches_the_context(event: str, host: str, tmp_path: Path) -> None:
    server = serve(tmp_path, "It says hello.", event=event, result=INJECTS)
    async with server.connect() as client:
        await client.call_tool("run_agent", {"task": "Read."})
        messages = get_history(server)
    assert [message["content"] for message in messages if message["role"] == "system"] == ["Be brief."]


@EVERY_ERA
@BOTH_HOSTS
async def test_a_user_message_of_a_hook_reaches_the_log_of_the_client(host: str, mode: str, tmp_path: Path) -> None:
    messages: list[Any] = []

    async def log(params: Any) -> None:
        messages.append((params.level, params.data, params.logger))

    decision = {"user_message": "It costs much.", "user_message_level": "warning", "user_message_source": "budget"}
    server = serve(tmp_path, "It says hello.", event="provider:request", result=decision)
    async with server.connect(mode=mode, logging_callback=log) as client:
        await client.call_tool("run_agent", {"task": "Read."}, meta=LOGS)
    assert messages == [("warning", "It costs much.", "budget")]


async def test_a_decision_for_the_session_applies_to_the_same_task_in_one_conversation(tmp_path: Path) -> None:
    asks = {**ASKS, "approval_options": ["Allow for session", "Deny"]}
    look = {"calls": [{"name": "read_file", "arguments": {"path": "a.txt"}}]}
    server = serve(tmp_path, look, "One.", "Two.", "Three.", event="provider:request", result=asks)
    audit = tmp_path / "audit"
    server.source.asking.policy = ApprovalPolicy(grants=GrantStore(MemoryStore()), audit=AuditLog(audit))
    user = ScriptedUser("Allow for session")
    async with server.connect(elicitation_callback=user) as client:
        # This task makes two requests to the model.
        first = await client.call_tool("run_agent", {"task": "Count."})
        assert len(user.asked) == 1
        handle = first.structured_content["session"]
        for task, count in (("Go on.", 2), ("Go on.", 2), ("Stop.", 3)):
            await client.call_tool("run_agent", {"task": task, "session": handle})
            assert len(user.asked) == count
        await client.call_tool("run_agent", {"task": "Count."})
        assert len(user.asked) == 4
    assert "remembered" in audit.read_text()
    assert handle not in audit.read_text()


@EVENTS
async def test_a_hook_that_denies_an_event_stops_the_run(event: str, tmp_path: Path) -> None:
    server = serve(tmp_path, "It says hello.", event=event, result={"action": "deny", "reason": "not today"})
    async with server.connect() as client:
        result = await client.call_tool("run_agent", {"task": "Read."})
    assert result.is_error
    assert "not today" in get_texts(result)[0]
    assert "It says hello." not in "".join(get_texts(result))


@BOTH_HOSTS
@EVENTS
@pytest.mark.parametrize("hangs", [False, True], ids=["raises", "hangs"])
async def test_a_hook_that_fails_stops_the_run(event: str, hangs: bool, host: str, tmp_path: Path) -> None:
    server = serve(tmp_path, "It says hello.", hook=FAILS, event=event, hangs=hangs)
    server.source._hook_timeout = 0.2 if hangs else 30
    async with server.connect() as client:
        result = await client.call_tool("run_agent", {"task": "Read."})
    assert get_code(result) == "agent_stopped"
    assert "'guard' failed" in get_texts(result)[0]
    assert "It says hello." not in "".join(get_texts(result))


WAITS_INSIDE = """
class Approver:
    provider = None

    def __init__(self, event, timeout):
        self.event, self.timeout = event, timeout

    async def decide(self, event, data):
        request = SimpleNamespace(
            tool_name="agent", action="Let it go on", details={"event": event}, risk_level="high", timeout=self.timeout
        )
        try:
            answer = await self.provider.request_approval(request)
        except TimeoutError:
            return HookResult()
        return HookResult(action="continue" if answer.approved else "deny", reason=answer.reason)

async def mount(coordinator, config):
    approver = Approver(config["event"], config.get("timeout"))

    def receive(provider):
        approver.provider = provider

    coordinator.register_capability("approval.register_provider", receive)
    coordinator.hooks.register(config["event"], approver.decide)
"""


@EVERY_ERA
@BOTH_HOSTS
@EVENTS
@pytest.mark.parametrize("choice", ["Allow", "Deny"])
async def test_the_user_decides_for_hooks_that_await_an_approval(
    event: str, choice: str, host: str, mode: str, tmp_path: Path
) -> None:
    server, user = serve(tmp_path, "It says hello.", hook=WAITS_INSIDE, event=event), ScriptedUser(choice)
    async with server.connect(mode=mode, elicitation_callback=user) as client:
        result = await client.call_tool("run_agent", {"task": "Read."})
    assert len(user.asked) == 1
    assert user.prompts[0].startswith("Let it go on? (risk: high)")
    assert result.is_error == (choice == "Deny")


BOTH_DECIDE = """
async def mount(coordinator, config):
    async def ask(event, data):
        return HookResult(action="ask_user", approval_prompt="May it?")

    async def inject(event, data):
        return HookResult(action="inject_context", context_injection="it rains", context_injection_role="system")

    coordinator.hooks.register(config["event"], ask)
    coordinator.hooks.register(config["event"], inject)
"""


@BOTH_HOSTS
@pytest.mark.parametrize("loop", ["basic", "streaming", "loop-basic", "loop-streaming"])
@pytest.mark.parametrize("event", ["prompt:submit", "provider:request"])
async def test_a_text_that_comes_with_a_question_reaches_this_request(
    event: str, loop: str, host: str, tmp_path: Path
) -> None:
    names = {name: name_module(tmp_path, name) for name in ("hooks", "echo", loop)}
    modules = {names["hooks"]: BOTH_DECIDE, names["echo"]: write_shape("echo", PACKAGES[host])}
    if not loop.startswith("loop-"):
        modules[names[loop]] = write_shape(loop, PACKAGES[host])
    server = ServedPlan(
        tmp_path,
        modules,
        session={"orchestrator": loop if loop.startswith("loop-") else names[loop], "context": "context-simple"},
        providers=[{"module": names["echo"]}],
        hooks=[{"module": names["hooks"], "config": {"event": event}}],
    )
    async with server.connect(elicitation_callback=ScriptedUser("Allow")) as client:
        result = await client.call_tool("run_agent", {"task": "Go."})
    assert get_texts(result)[0].count("it rains") == 1
