"""The combined decision of several handlers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Literal
from unittest.mock import MagicMock

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from mcp_bridge.amplifier import ContextInjection, HookRegistry, HookResult

ORDER = ("deny", "ask_user", "inject_context", "modify", "continue")
ALL = {
    "deny": HookResult(action="deny", reason="no", user_message="denied"),
    "ask_user": HookResult(action="ask_user", approval_prompt="Really?", user_message="asked"),
    "inject_context": HookResult(action="inject_context", context_injection="lint", user_message="injected"),
    "modify": HookResult(action="modify", data={"tool_input": "changed"}, user_message="modified"),
    "continue": HookResult(user_message="went on"),
}


class Foreign(BaseModel):
    """A result of another package, such as amplifier-core's own class."""

    action: Literal["continue", "deny", "modify", "inject_context", "ask_user"] = "continue"
    data: dict[str, Any] | None = None
    reason: str | None = None
    context_injection: str | None = None
    context_injection_role: str = "system"
    ephemeral: bool = False
    approval_prompt: str | None = None
    approval_options: list[str] | None = None
    approval_timeout: float = 300.0
    approval_default: str = "deny"
    suppress_output: bool = False
    user_message: str | None = None
    user_message_level: str = "info"
    user_message_source: str | None = None
    append_to_last_tool_result: bool = False
    context_injections: list[dict[str, Any]] = []
    something_new: int = 1


async def combine_decisions(*answers: Any, event: str = "x", data: dict[str, Any] | None = None) -> HookResult:
    """Return the combined decision of handlers with these results."""
    hooks = HookRegistry()
    for answer in answers:
        hooks.register(event, lambda event, data, answer=answer: answer)
    return await hooks.emit(event, data or {"tool_input": "original"})


def list_effective_actions(actions: list[str]) -> list[str]:
    """Return the effective actions: all, or those until the first denial."""
    return actions[: actions.index("deny") + 1] if "deny" in actions else actions


@given(st.lists(st.sampled_from(ORDER), max_size=8))
def test_precedence_holds_for_any_handlers_and_no_decision_is_lost(actions: list[str]) -> None:
    result = anyio.run(lambda: combine_decisions(*(ALL[action] for action in actions)))
    event = list_effective_actions(actions)
    assert result.action == next((action for action in ORDER if action in event), "continue")
    assert result.data["tool_input"] == ("changed" if "modify" in event else "original")
    assert (result.user_message or "").splitlines() == [ALL[action].user_message for action in event]
    assert [block.content for block in result.context_injections] == ["lint"] * event.count("inject_context")
    if result.action == "ask_user":
        assert result.approval_prompt == "\n\n".join(["Really?"] * event.count("ask_user"))


async def test_a_handler_receives_the_data_as_earlier_handlers_have_changed_it() -> None:
    hooks = HookRegistry()
    for _ in range(3):
        hooks.register("x", lambda event, data: HookResult(action="modify", data={"n": data["n"] + 1}))
    result = await hooks.emit("x", {"n": 0, "other": "stays"})
    assert (result.action, result.data["n"], result.data["other"]) == ("modify", 3, "stays")


async def test_a_modification_is_a_change_of_the_value() -> None:
    decision = HookResult(action="modify", data={"tool_input": "".join(["orig", "inal"])})
    assert (await combine_decisions(decision)).action == "continue"
    assert (await combine_decisions(HookResult(action="modify"))).action == "continue"


async def test_values_that_cannot_be_compared_count_as_modified() -> None:
    class Array:
        def __eq__(self, other: object) -> bool:
            raise ValueError("the truth value of an array is ambiguous")

        __hash__ = None  # type: ignore[assignment]

    result = await combine_decisions(HookResult(action="modify", data={"array": Array()}), data={"array": Array()})
    assert result.action == "modify"


async def test_the_data_of_other_decisions_changes_nothing() -> None:
    result = await combine_decisions(HookResult(action="continue", data={"tool_input": "sneaked in"}))
    assert (result.action, result.data["tool_input"]) == ("continue", "original")


async def test_injected_texts_keep_their_order_and_their_roles() -> None:
    result = await combine_decisions(
        HookResult(action="inject_context", context_injection="one", context_injection_role="user", ephemeral=True),
        HookResult(action="inject_context", context_injections=[ContextInjection(content="two")]),
        HookResult(action="inject_context"),
    )
    assert result.context_injection == "one\n\ntwo"
    assert [(block.content, block.role, block.ephemeral) for block in result.context_injections] == [
        ("one", "user", True),
        ("two", "system", False),
    ]
    assert (result.context_injection_role, result.ephemeral) == ("user", True)


async def test_a_result_that_a_handler_returns_repeatedly_is_never_changed() -> None:
    decision = HookResult(action="inject_context", context_injections=[ContextInjection(content="one")])
    result = await combine_decisions(decision, decision)
    result.context_injections[0].content = "spoilt"
    assert (await combine_decisions(decision)).context_injection == "one"


async def test_several_questions_become_one_with_the_strictest_terms() -> None:
    result = await combine_decisions(
        HookResult(
            action="ask_user",
            approval_prompt="Write?",
            approval_options=["Allow once", "Allow always", "Deny"],
            approval_timeout=60,
            approval_default="allow",
            reason="a",
        ),
        HookResult(action="ask_user", approval_prompt="To /etc?", approval_timeout=9, reason="b"),
        HookResult(action="ask_user", approval_options=["Deny", "Allow once"], approval_default="allow"),
    )
    assert (result.approval_prompt, result.approval_options) == ("Write?\n\nTo /etc?", ["Allow once", "Deny"])
    assert (result.approval_timeout, result.approval_default, result.reason) == (9, "deny", "a\nb")


async def test_questions_without_common_options_have_the_options_allow_and_deny() -> None:
    asks = [HookResult(action="ask_user", approval_options=options) for options in (["Yes", "No"], ["Allow", "Deny"])]
    assert (await combine_decisions(*asks)).approval_options == ["Allow", "Deny"]
    assert (await combine_decisions(asks[0])).approval_options == ["Yes", "No"]


async def test_the_user_reads_every_message_at_the_worst_level() -> None:
    result = await combine_decisions(
        HookResult(user_message="one", user_message_source="a"),
        HookResult(action="deny", user_message="two", user_message_level="error"),
    )
    assert (result.user_message, result.user_message_level, result.user_message_source) == ("one\ntwo", "error", "a")


async def test_output_stays_suppressed_and_reasons_are_kept() -> None:
    result = await combine_decisions(HookResult(suppress_output=True, reason="one"), HookResult(reason="two"))
    assert (result.action, result.suppress_output, result.reason) == ("continue", True, "one\ntwo")


@pytest.mark.parametrize("action", ORDER)
async def test_a_result_of_another_package_or_a_dict_is_a_decision(action: str) -> None:
    ours = await combine_decisions(ALL[action], data={"tool_input": "original", "timestamp": ""})
    fields = ALL[action].model_dump()
    assert await combine_decisions(Foreign(**fields), data={"tool_input": "original", "timestamp": ""}) == ours
    assert await combine_decisions(fields, data={"tool_input": "original", "timestamp": ""}) == ours


async def test_none_continues() -> None:
    assert (await combine_decisions(None, {}, event="tool:pre")).action == "continue"


GARBAGE = [
    "deny",
    True,
    ("deny", "no"),
    SimpleNamespace(action="deny"),
    object(),
    MagicMock(),
    {"action": "explode"},
    {"action": "deny", "approval_timeout": float("nan")},
    {"action": "modify", "data": "text"},
    HookResult,
]


@pytest.mark.parametrize("answer", GARBAGE, ids=lambda answer: type(answer).__name__)
async def test_an_invalid_decision_denies_a_call_and_is_skipped_for_other_events(answer: Any) -> None:
    result = await combine_decisions(answer, event="tool:pre")
    assert (result.action, result.reason) == ("deny", "The hook '<lambda>' failed, so the operation is denied.")
    assert (await combine_decisions(answer, ALL["modify"], event="tool:post")).action == "modify"


async def test_the_log_does_not_show_the_contents_of_an_invalid_decision(caplog: pytest.LogCaptureFixture) -> None:
    await combine_decisions({"action": "explode", "reason": "s3cret", "data": ["s3cret"]}, event="tool:pre")
    assert "s3cret" not in caplog.text
