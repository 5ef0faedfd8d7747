"""The coordinator of amplifier-core, guarded: nothing fails open on it, and the rest is as amplifier-core has it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import amplifier_core
import anyio
import pytest
from amplifier_core.testing import MockTool

from mcp_bridge._integrations.amplifier.core import CoreCoordinator, CoreHooks, to_core_result
from mcp_bridge.amplifier import HookResult, MountCollision
from mcp_bridge.amplifier.testing import EventRecorder


def make_coordinator(**config: Any) -> CoreCoordinator:
    """Return a coordinator without a session."""
    return CoreCoordinator(config, CoreHooks(timeout=60.0))


async def test_a_mount_takes_effect_immediately_and_may_be_awaited() -> None:
    coordinator, tool = make_coordinator(), MockTool("one")
    coordinator.mount("tools", tool)
    assert coordinator.get("tools", "one") is tool
    await coordinator.mount("tools", MockTool("two"), name="other")
    assert coordinator.to_dict()["tools"] == ["one", "other"]
    coordinator.mount("session", "loop", name="orchestrator")
    assert coordinator.get("orchestrator") == coordinator.get_mounted("session", "orchestrator") == "loop"
    assert coordinator.to_dict()["has_orchestrator"]
    assert coordinator.get("session") == {"orchestrator": "loop"}
    await coordinator.unmount("tools", "one")
    await coordinator.unmount("tools", "never")
    assert list(coordinator.mount_points["tools"]) == ["other"]
    for wrong in ("nowhere", "hooks"):
        with pytest.raises(ValueError, match=f"Unknown mount point: {wrong}"):
            coordinator.mount(wrong, tool)


async def test_no_module_replaces_another_silently_not_even_through_mount_points() -> None:
    changes: list[int] = []
    coordinator = CoreCoordinator({}, CoreHooks(), lambda: changes.append(1))
    coordinator.mount_points["tools"]["same"] = MockTool("same")
    with pytest.raises(MountCollision):
        coordinator.mount_points["tools"]["same"] = MockTool("same")
    with pytest.raises(MountCollision):
        coordinator.mount("tools", MockTool("same"))
    coordinator.mount_points["tools"] = {"other": MockTool("other")}
    assert list(coordinator.get("tools")) == coordinator.to_dict()["tools"] == ["other"]
    assert len(changes) == 3


async def test_every_way_to_the_hooks_leads_to_those_of_the_bridge() -> None:
    coordinator = make_coordinator()
    assert coordinator.hooks is coordinator.get("hooks") is coordinator.mount_points["hooks"]
    with pytest.raises(AttributeError):
        coordinator.hooks = None  # type: ignore[misc]

    def fails(event: str, data: dict[str, Any]) -> None:
        raise RuntimeError("broken")

    coordinator.hooks.register("tool:pre", fails)
    assert (await coordinator.hooks.emit("tool:pre", {})).action == "deny"


async def test_an_event_of_amplifier_core_reaches_every_hook_once() -> None:
    coordinator, recorder = make_coordinator(), EventRecorder()
    core = amplifier_core.ModuleCoordinator.hooks.__get__(coordinator)
    assert core is not coordinator.hooks
    coordinator.hooks.register("cancel:completed", recorder)
    coordinator.hooks.on("cancel:completed", lambda event, data: HookResult(action="deny", reason="never"), priority=9)
    answer = await core.emit("cancel:completed", {"was": "graceful"})
    assert (answer.action, answer.reason) == ("deny", "never")
    [(_, data)] = recorder.events
    assert (data["was"], data["session_id"]) == ("graceful", coordinator.session_id)


async def test_a_cancellation_is_an_event_and_runs_callbacks() -> None:
    coordinator, recorder, was_called = make_coordinator(), EventRecorder(), anyio.Event()

    async def stop() -> None:
        was_called.set()

    coordinator.hooks.register("cancel:requested", recorder)
    coordinator.cancellation.on_cancel(stop)
    coordinator.cancellation.register_tool_start("1", "greet")
    await coordinator.request_cancel()
    await coordinator.request_cancel()
    assert (coordinator.cancellation.is_graceful, was_called.is_set()) == (True, True)
    await coordinator.request_cancel(immediate=True)
    levels = [data["level"] for _, data in recorder.events]
    assert (levels, recorder.events[0][1]["running_tools"]) == (["graceful", "immediate"], ["greet"])


@pytest.mark.parametrize("error", [ValueError("x"), RuntimeError("y")])
async def test_a_failing_callback_does_not_prevent_the_others(error: Exception) -> None:
    coordinator, called = make_coordinator(), []

    async def fails() -> None:
        raise error

    coordinator.cancellation.on_cancel(fails)
    coordinator.cancellation.on_cancel(lambda: called.append(1))
    await coordinator.request_cancel()
    assert called == [1]


async def test_capabilities_contributions_and_state_are_amplifier_cores() -> None:
    coordinator, error = make_coordinator(), []

    async def later() -> str:
        return "async"

    def ends() -> None:
        raise SystemExit("no")

    coordinator.on_capability("known", error.append)
    coordinator.register_capability("known", 1)
    for number, callback in enumerate((lambda: "sync", later, lambda: None, ends, lambda: 1 / 0)):
        coordinator.register_contributor("events", f"n{number}", callback)
    assert await coordinator.collect_contributions("events") == ["sync", "async"]
    assert await coordinator.collect_contributions("nothing") == []
    assert (coordinator.get_capability("known"), coordinator.get_capability("other"), error) == (1, None, [1])
    coordinator.session_state["a"] = 1
    coordinator.todo_state = []  # type: ignore[attr-defined]
    assert (coordinator.session_state, coordinator.todo_state) == ({"a": 1}, [])  # type: ignore[attr-defined]
    assert coordinator.session.coordinator is coordinator
    assert coordinator.session.session_id == coordinator.session_id


class Approves:
    """An approval and display system with a fixed choice and a record of messages."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.shown: list[str] = []

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> Any:
        """The answer, raised where it is an error."""
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def show_message(self, message: str, level: str, source: str) -> None:
        """Keep a message."""
        self.shown.append(message)


@pytest.mark.parametrize(
    ("answer", "action"),
    [
        ("Allow once", "continue"),
        ("Deny", "deny"),
        (RuntimeError("no screen"), "deny"),
        (TimeoutError(), "deny"),
        (SystemExit(3), "deny"),
    ],
)
async def test_a_question_keeps_the_message_and_the_changes_and_fails_closed(answer: Any, action: str) -> None:
    coordinator, user = make_coordinator(), Approves(answer)
    coordinator.approval_system = coordinator.display_system = user
    decision = amplifier_core.HookResult(
        action="ask_user", approval_prompt="Sure?", user_message="look", data={"tool_input": {"n": 1}}
    )
    outcome = await coordinator.process_hook_result(decision, "tool:pre", "mine")
    assert isinstance(outcome, amplifier_core.HookResult)
    assert (outcome.action, outcome.data, user.shown) == (action, {"tool_input": {"n": 1}}, ["look"])


async def test_texts_for_the_model_keep_to_the_limits_of_the_plan(caplog: pytest.LogCaptureFixture) -> None:
    coordinator = make_coordinator(session={"injection_size_limit": 10, "injection_budget_per_turn": 2})
    messages: list[Any] = []

    async def remember(message: Any) -> None:
        messages.append(message)

    coordinator.mount("context", SimpleNamespace(add_message=remember))

    def inject(text: str) -> Any:
        return amplifier_core.HookResult(action="inject_context", context_injection=text)

    decision = inject("12345678")
    assert await coordinator.process_hook_result(decision, "tool:post", "mine") is decision
    assert [message["content"] for message in messages] == ["12345678"]
    assert "tokens in one turn" not in caplog.text
    await coordinator.process_hook_result(inject("12345678"), "tool:post", "mine")
    assert "hook 'mine' injects more than 2 tokens in one turn" in caplog.text
    coordinator.reset_turn()
    with pytest.raises(ValueError, match="exceeds 10 characters"):
        await coordinator.process_hook_result(inject("12345678901"), "tool:post", "mine")
    assert len(messages) == 2


def test_a_decision_is_the_same_in_amplifier_cores_class() -> None:
    result = to_core_result(HookResult(action="inject_context", context_injection="read", user_message="look"))
    assert (result.action, result.context_injection, result.user_message) == ("inject_context", "read", "look")
