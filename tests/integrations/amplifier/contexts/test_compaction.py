"""The messages of a long history in a request."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_bridge._integrations.amplifier.contexts.compaction import estimate_tokens, list_call_ids, list_result_ids
from mcp_bridge._integrations.amplifier.contexts.simple import ContextConfig, SimpleContext
from mcp_bridge._integrations.amplifier.models import ProviderInfo
from mcp_bridge.amplifier.testing import EventRecorder, MockProvider

Messages = list[dict[str, Any]]
BUDGET = 1500


def make_text(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


def make_tool_use(name: str, results: list[str]) -> Messages:
    """Return a request for tool calls, and their results."""
    ids = [f"{name}.{number}" for number in range(len(results))]
    calls = [{"id": path, "tool": "read", "arguments": {"path": path}} for path in ids]
    request = {"role": "assistant", "content": "", "tool_calls": calls}
    return [
        request,
        *({"role": "tool", "tool_call_id": path, "content": text} for path, text in zip(ids, results, strict=True)),
    ]


words = st.integers(1, 400).map(lambda count: "word " * count)
turns = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("user", "assistant", "system")), words),
        st.tuples(st.just("tools"), st.lists(words, min_size=1, max_size=3)),
    ),
    max_size=40,
)


def build_history(drawn: list[tuple[str, Any]]) -> Messages:
    history: Messages = []
    for number, (role, text) in enumerate(drawn):
        # System messages are never left out, so there must be few of them.
        is_long = role == "system" and number > 3
        history += (
            make_tool_use(f"call{number}", text)
            if role == "tools"
            else [make_text("user" if is_long else role, f"{number}: {text[:500] if role == 'system' else text}")]
        )
    return [{**message, "place": place} for place, message in enumerate(history)]


async def select(history: Messages) -> Messages:
    context = SimpleContext()
    await context.set_messages(history)
    return await context.get_messages_for_request(BUDGET)


@given(drawn=turns)
@settings(max_examples=60)
async def test_a_selection_fits_keeps_calls_with_results_and_the_order(drawn: Any) -> None:
    history = build_history(drawn)
    view = await select(history)
    assert sum(map(estimate_tokens, view)) <= BUDGET
    call_ids = [call_id for message in view for call_id in list_call_ids(message)]
    result_ids = [call_id for message in view for call_id in list_result_ids(message)]
    assert call_ids == result_ids
    places = [call_id["place"] for call_id in view if "place" in call_id]
    assert places == sorted(places)
    for role in ("system", "user"):
        latest = [message["place"] for message in history if message["role"] == role][-1:]
        assert latest == [message["place"] for message in view if message["role"] == role and "place" in message][-1:]


@given(drawn=turns)
async def test_a_selection_depends_only_on_the_history(drawn: Any) -> None:
    history = build_history(drawn)
    context = SimpleContext()
    for message in history:
        await context.add_message(message)
        await context.get_messages_for_request(BUDGET)
    assert await context.get_messages() == history
    assert await context.get_messages_for_request(BUDGET) == await select(history)


async def test_200_turns_stay_within_the_window_and_most_requests_begin_with_the_same_messages() -> None:
    context, provider = SimpleContext(), MockProvider()
    window = 8192 - 1024 - 1000
    await context.add_message(make_text("system", "You are a sample."))
    await context.add_message(make_text("user", "The task."))
    starts = set()
    for number in range(200):
        for message in make_tool_use(f"turn{number}", ["word " * 100, "word " * 50]):
            await context.add_message(message)
        view = await context.get_messages_for_request(provider=provider)
        assert sum(map(estimate_tokens, view)) <= window
        assert [message["content"] for message in view[:2]] == ["You are a sample.", "The task."]
        assert list_result_ids(view[-1]) == [f"turn{number}.1"]
        starts.add(list_call_ids(view[2])[0])
    assert len(await context.get_messages()) == 2 + 200 * 3
    assert len(starts) < 30


async def test_a_result_that_is_larger_than_the_window_is_shortened_in_the_middle() -> None:
    [call, result] = make_tool_use("big", ["first " + "word " * 10_000 + "last"])
    view = await select([make_text("user", "Read it."), call, result])
    assert [message["role"] for message in view] == ["user", "assistant", "tool"]
    text = view[-1]["content"]
    assert text.startswith("first word")
    assert text.endswith("word last")
    assert "characters left out]" in text


async def test_blocks_are_shortened_and_images_are_not_counted_as_text() -> None:
    image = {"type": "image", "source": {"type": "base64", "data": "A" * 1_000_000}}
    assert estimate_tokens({"role": "user", "content": [image]}) < 2000
    blocks = [{"type": "tool_result", "tool_call_id": "1", "output": {"text": "word " * 10_000}}, {"type": "other"}]
    call = {"role": "assistant", "content": [{"type": "tool_call", "id": "1", "name": "read", "input": {}}]}
    view = await select([call, {"role": "tool", "content": blocks}])
    assert sum(map(estimate_tokens, view)) <= BUDGET
    assert view[-1]["content"][1] == {"type": "other"}


async def test_a_result_without_its_call_is_left_out_of_a_selection() -> None:
    orphan = {"role": "tool", "tool_call_id": "lost", "content": "word"}
    view = await select([make_text("user", "word " * 2000), orphan, make_text("assistant", "word")])
    assert [message["role"] for message in view] == ["user", "assistant"]


async def test_events_report_a_compaction_once() -> None:
    hooks = EventRecorder()
    context = SimpleContext(hooks=hooks)
    await context.set_messages([make_text("user", f"message {number} " + "word " * 60) for number in range(30)])
    for _ in range(2):
        view = await context.get_messages_for_request(BUDGET)
    [(before, full), (after, after_data)] = hooks.events
    assert (before, after) == ("context:pre_compact", "context:post_compact")
    assert full["message_count"] == 30
    assert after_data["message_count"] == len(view)
    assert after_data["token_count"] < BUDGET * 0.8 < full["token_count"]


class Faulty(MockProvider):
    def get_info(self) -> ProviderInfo:
        raise RuntimeError("no info")


class Tiny(MockProvider):
    def get_info(self) -> ProviderInfo:
        return ProviderInfo(id="tiny", display_name="t", defaults={"context_window": 900, "max_output_tokens": 500})


@pytest.mark.parametrize("provider", [None, Faulty(), Tiny()])
async def test_the_configured_budget_applies_if_a_provider_has_none(provider: Any) -> None:
    context = SimpleContext(ContextConfig(max_tokens=BUDGET))
    await context.set_messages([make_text("user", "word " * 100) for _ in range(30)])
    view = await context.get_messages_for_request(provider=provider)
    assert 1 < len(view) < 30
