"""The decisions of hooks are remembered, shown and carried out."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcp_bridge.amplifier import ApprovalTimeoutError, HookResult, ModuleCoordinator
from mcp_bridge.amplifier.testing import EventRecorder, MockContextManager, TestCoordinator
from tests.kits.loops import BOTH_LOOPS

ASK = HookResult(action="ask_user", approval_prompt="Write?", data={"tool_input": {"path": "changed"}})
APPROVALS = ("approval:required", "approval:granted", "approval:denied")


def make_session(request_approval: Any) -> tuple[TestCoordinator, EventRecorder]:
    """Return a coordinator with this choice of the user, and its approval events."""
    coordinator, recorder = TestCoordinator(), EventRecorder()
    coordinator.approvals.request_approval = request_approval
    for event in APPROVALS:
        coordinator.hooks.register(event, recorder)
    return coordinator, recorder


async def test_texts_for_the_model_are_stored_unless_they_are_ephemeral() -> None:
    coordinator, context = TestCoordinator(), MockContextManager()
    await coordinator.mount("context", context)
    coordinator.hooks.register("x", lambda event, data: {"action": "inject_context", "context_injection": "one"})
    coordinator.hooks.register(
        "x", lambda event, data: {"action": "inject_context", "context_injection": "two", "ephemeral": True}
    )
    result = await coordinator.hooks.emit("x")
    assert await coordinator.process_hook_result(result, "x") is result
    assert context.messages == [{"role": "system", "content": "one"}]


async def test_messages_are_shown_with_their_level_and_source() -> None:
    coordinator = TestCoordinator()
    await coordinator.process_hook_result(HookResult(user_message="hi"), "x", "my-hook")
    result = HookResult(action="deny", user_message="no", user_message_level="error", user_message_source="guard")
    assert (await coordinator.process_hook_result(result, "x")).action == "deny"
    assert coordinator.display.shown == [("hi", "info", "my-hook"), ("no", "error", "guard")]


async def test_a_message_goes_to_the_log_if_there_is_no_display(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "mcp_bridge.amplifier"):
        await ModuleCoordinator().process_hook_result(HookResult(user_message="hi"), "x", "my-hook")
    assert caplog.messages == ["my-hook: hi"]


async def test_a_failing_display_or_context_does_not_prevent_the_question() -> None:
    def breaks(*args: Any) -> None:
        raise RuntimeError("no display")

    coordinator = TestCoordinator()
    coordinator.display.show_message = breaks  # type: ignore[method-assign]
    context = MockContextManager()
    context.add_message = breaks  # type: ignore[assignment,method-assign]
    # `mount` needs no await (see `Completed`).
    coordinator.mount("context", context)
    coordinator.approvals.answer = "Deny"
    result = ASK.model_copy(update={"user_message": "hi", "context_injection": "text"})
    assert (await coordinator.process_hook_result(result, "tool:pre")).action == "deny"


@pytest.mark.parametrize("answer", ["Allow", " ALLOW ALWAYS ", "Allow for session"])
async def test_modified_data_remains_if_the_user_allows_the_call(answer: str) -> None:
    async def choose(*args: Any) -> str:
        return answer

    coordinator, recorder = make_session(choose)
    result = await coordinator.process_hook_result(ASK, "tool:pre")
    assert (result.action, result.data) == ("continue", ASK.data)
    assert [event for event, _ in recorder.events] == ["approval:required", "approval:granted"]


@pytest.mark.parametrize("answer", ["Deny", "", "Allowed?", None, {"approved": True}])
async def test_an_unknown_choice_denies(answer: Any) -> None:
    async def choose(*args: Any) -> Any:
        return answer

    coordinator, recorder = make_session(choose)
    result = await coordinator.process_hook_result(ASK, "tool:pre")
    assert (result.action, result.data) == ("deny", ASK.data)
    assert result.reason is not None
    assert [event for event, _ in recorder.events] == ["approval:required", "approval:denied"]


async def test_the_approval_system_gets_the_terms_of_the_question() -> None:
    coordinator = TestCoordinator()
    await coordinator.process_hook_result(ASK, "tool:pre")
    decision = HookResult(
        action="ask_user", approval_options=["Yes", "No"], approval_timeout=9, approval_default="allow"
    )
    await coordinator.process_hook_result(decision, "tool:pre")
    assert coordinator.approvals.asked == [
        {"prompt": "Write?", "options": ["Allow", "Deny"], "timeout": 300.0, "default": "deny"},
        {"prompt": "Allow this?", "options": ["Yes", "No"], "timeout": 9.0, "default": "allow"},
    ]


class TheirTimeout(Exception):
    """The error of another package."""


TheirTimeout.__name__ = "ApprovalTimeoutError"


@pytest.mark.parametrize("default", ["allow", "deny"])
@pytest.mark.parametrize(
    "error", [ApprovalTimeoutError(), TimeoutError(), TheirTimeout()], ids=["ours", "python", "theirs"]
)
async def test_the_default_applies_after_a_timeout(error: Exception, default: Any) -> None:
    async def raises(*args: Any) -> str:
        raise error

    coordinator, _ = make_session(raises)
    asks = ASK.model_copy(update={"approval_default": default})
    result = await coordinator.process_hook_result(asks, "tool:pre")
    assert result.action == {"allow": "continue", "deny": "deny"}[default]


@pytest.mark.parametrize("default", ["allow", "deny"])
async def test_the_default_applies_if_the_approval_system_ignores_the_timeout(default: Any) -> None:
    async def waits(*args: Any) -> str:
        await anyio.sleep_forever()
        return "Allow"

    coordinator, _ = make_session(waits)
    asks = ASK.model_copy(update={"approval_default": default, "approval_timeout": 0.05})
    result = await coordinator.process_hook_result(asks, "tool:pre")
    assert result.action == {"allow": "continue", "deny": "deny"}[default]


@pytest.mark.parametrize("error", [ConnectionError(), SystemExit()], ids=["Exception", "SystemExit"])
async def test_without_a_working_approval_system_every_question_is_a_denial(error: BaseException) -> None:
    async def raises(*args: Any) -> str:
        raise error

    coordinator, _ = make_session(raises)
    asks = ASK.model_copy(update={"approval_default": "allow"})
    assert (await coordinator.process_hook_result(asks, "tool:pre")).action == "deny"
    coordinator.approval_system = None
    assert (await coordinator.process_hook_result(asks, "tool:pre")).action == "deny"
    coordinator.approval_system = object()
    assert (await coordinator.process_hook_result(asks, "tool:pre")).action == "deny"


@BOTH_LOOPS
async def test_the_callers_cancellation_passes_while_the_user_is_asked() -> None:
    async def waits(*args: Any) -> str:
        await anyio.sleep_forever()
        return "Allow"

    coordinator, recorder = make_session(waits)
    with anyio.move_on_after(0.05) as scope:
        await coordinator.process_hook_result(ASK, "tool:pre")
    assert scope.cancelled_caught
    assert [event for event, _ in recorder.events] == ["approval:required"]
