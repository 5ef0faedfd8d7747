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


@pytest.fixture
def anyio_backend() -> str:
    """amplifier-core runs on asyncio alone."""
    return "asyncio"


def coordinator(**config: Any) -> CoreCoordinator:
    """A coordinator without a session."""
    return CoreCoordinator(config, CoreHooks(timeout=60.0))


async def test_a_mount_takes_effect_immediately_and_may_be_awaited() -> None:
    coordinator_, tool = coordinator(), MockTool("one")
    coordinator_.mount("tools", tool)
    assert coordinator_.get("tools", "one") is tool
    await coordinator_.mount("tools", MockTool("two"), name="other")
    assert coordinator_.to_dict()["tools"] == ["one", "other"]
    coordinator_.mount("session", "loop", name="orchestrator")
    assert coordinator_.get("orchestrator") == coordinator_.get_mounted("session", "orchestrator") == "loop"
    assert coordinator_.to_dict()["has_orchestrator"]
    assert coordinator_.get("session") == {"orchestrator": "loop"}
    await coordinator_.unmount("tools", "one")
    await coordinator_.unmount("tools", "never")
    assert list(coordinator_.mount_points["tools"]) == ["other"]
    for wrong in ("nowhere", "hooks"):
        with pytest.raises(ValueError, match=f"Unknown mount point: {wrong}"):
            coordinator_.mount(wrong, tool)


async def test_no_module_replaces_another_silently_not_even_through_mount_points() -> None:
    changes: list[int] = []
    coordinator_ = CoreCoordinator({}, CoreHooks(), lambda: changes.append(1))
    coordinator_.mount_points["tools"]["same"] = MockTool("same")
    with pytest.raises(MountCollision):
        coordinator_.mount_points["tools"]["same"] = MockTool("same")
    with pytest.raises(MountCollision):
        coordinator_.mount("tools", MockTool("same"))
    coordinator_.mount_points["tools"] = {"other": MockTool("other")}
    assert list(coordinator_.get("tools")) == coordinator_.to_dict()["tools"] == ["other"]
    assert len(changes) == 3


async def test_every_way_to_the_hooks_leads_to_those_of_the_bridge() -> None:
    coordinator_ = coordinator()
    assert coordinator_.hooks is coordinator_.get("hooks") is coordinator_.mount_points["hooks"]
    with pytest.raises(AttributeError):
        coordinator_.hooks = None  # type: ignore[misc]

    def fails(event: str, data: dict[str, Any]) -> None:
        raise RuntimeError("broken")

    coordinator_.hooks.register("tool:pre", fails)
    assert (await coordinator_.hooks.emit("tool:pre", {})).action == "deny"


async def test_an_event_of_amplifier_core_reaches_every_hook_once() -> None:
    coordinator_, recorder = coordinator(), EventRecorder()
    core = amplifier_core.ModuleCoordinator.hooks.__get__(coordinator_)
    assert core is not coordinator_.hooks
    coordinator_.hooks.register("cancel:completed", recorder)
    coordinator_.hooks.on("cancel:completed", lambda event, data: HookResult(action="deny", reason="never"), priority=9)
    answer = await core.emit("cancel:completed", {"was": "graceful"})
    assert (answer.action, answer.reason) == ("deny", "never")
    [(_, data)] = recorder.events
    assert (data["was"], data["session_id"]) == ("graceful", coordinator_.session_id)


async def test_a_cancellation_is_an_event_and_runs_callbacks() -> None:
    coordinator_, recorder, was_called = coordinator(), EventRecorder(), anyio.Event()

    async def stop() -> None:
        was_called.set()

    coordinator_.hooks.register("cancel:requested", recorder)
    coordinator_.cancellation.on_cancel(stop)
    coordinator_.cancellation.register_tool_start("1", "greet")
    await coordinator_.request_cancel()
    await coordinator_.request_cancel()
    assert (coordinator_.cancellation.is_graceful, was_called.is_set()) == (True, True)
    await coordinator_.request_cancel(immediate=True)
    levels = [data["level"] for _, data in recorder.events]
    assert (levels, recorder.events[0][1]["running_tools"]) == (["graceful", "immediate"], ["greet"])


@pytest.mark.parametrize("error", [ValueError("x"), RuntimeError("y")])
async def test_a_failing_callback_does_not_prevent_the_others(error: Exception) -> None:
    coordinator_, called = coordinator(), []

    async def fails() -> None:
        raise error

    coordinator_.cancellation.on_cancel(fails)
    coordinator_.cancellation.on_cancel(lambda: called.append(1))
    await coordinator_.request_cancel()
    assert called == [1]


async def test_capabilities_contributions_and_state_are_amplifier_cores() -> None:
    coordinator_, error = coordinator(), []

    async def later() -> str:
        return "async"

    def ends() -> None:
        raise SystemExit("no")

    coordinator_.on_capability("known", error.append)
    coordinator_.register_capability("known", 1)
    for number, callback in enumerate((lambda: "sync", later, lambda: None, ends, lambda: 1 / 0)):
        coordinator_.register_contributor("events", f"n{number}", callback)
    assert await coordinator_.collect_contributions("events") == ["sync", "async"]
    assert await coordinator_.collect_contributions("nothing") == []
    assert (coordinator_.get_capability("known"), coordinator_.get_capability("other"), error) == (1, None, [1])
    coordinator_.session_state["a"] = 1
    coordinator_.todo_state = []  # type: ignore[attr-defined]
    assert (coordinator_.session_state, coordinator_.todo_state) == ({"a": 1}, [])  # type: ignore[attr-defined]
    assert coordinator_.session.coordinator is coordinator_
    assert coordinator_.session.session_id == coordinator_.session_id


class Approves:
    """A person who always says the same, and is told things."""

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
    coordinator_, person = coordinator(), Approves(answer)
    coordinator_.approval_system = coordinator_.display_system = person
    decision = amplifier_core.HookResult(
        action="ask_user", approval_prompt="Sure?", user_message="look", data={"tool_input": {"n": 1}}
    )
    outcome = await coordinator_.process_hook_result(decision, "tool:pre", "mine")
    assert isinstance(outcome, amplifier_core.HookResult)
    assert (outcome.action, outcome.data, person.shown) == (action, {"tool_input": {"n": 1}}, ["look"])


async def test_texts_for_the_model_keep_to_the_limits_of_the_plan(caplog: pytest.LogCaptureFixture) -> None:
    coordinator_ = coordinator(session={"injection_size_limit": 10, "injection_budget_per_turn": 2})
    messages: list[Any] = []

    async def remember(message: Any) -> None:
        messages.append(message)

    coordinator_.mount("context", SimpleNamespace(add_message=remember))

    def inject(text: str) -> Any:
        return amplifier_core.HookResult(action="inject_context", context_injection=text)

    decision = inject("12345678")
    assert await coordinator_.process_hook_result(decision, "tool:post", "mine") is decision
    assert [message["content"] for message in messages] == ["12345678"]
    assert "tokens in one turn" not in caplog.text
    await coordinator_.process_hook_result(inject("12345678"), "tool:post", "mine")
    assert "hook 'mine' injects more than 2 tokens in one turn" in caplog.text
    coordinator_.reset_turn()
    with pytest.raises(ValueError, match="exceeds 10 characters"):
        await coordinator_.process_hook_result(inject("12345678901"), "tool:post", "mine")
    assert len(messages) == 2


def test_a_decision_is_the_same_in_amplifier_cores_class() -> None:
    made = to_core_result(HookResult(action="inject_context", context_injection="read", user_message="look"))
    assert (made.action, made.context_injection, made.user_message) == ("inject_context", "read", "look")
