"""The suite of tests for contexts (CONTEXT_CONTRACT 2.1.0)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

from mcp_bridge._integrations.amplifier.behavior.module_tests import (
    ModuleBehaviorTests,
    open_task_group,
    require,
    require_async_method,
)
from mcp_bridge._integrations.amplifier.doubles import EventRecorder, MockProvider
from mcp_bridge._integrations.amplifier.models import ProviderInfo

Messages = list[dict[str, Any]]
_CHARACTERS_PER_TOKEN = 4
# The budget of a request, in tokens. A conversation of this many turns has more than ten times as many.
_BUDGET = 2000
_TURNS = 60
_CONCURRENT_MESSAGES = 20
_CONVERSATION: Messages = [
    {"role": "system", "content": "You are a sample."},
    {"role": "user", "content": "How large is it?", "name": "ada"},
    {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [{"id": "call_1", "tool": "measure", "arguments": {"unit": "cm"}}],
    },
    {"role": "tool", "tool_call_id": "call_1", "name": "measure", "content": "3"},
    {"role": "assistant", "content": [{"type": "text", "text": "Three centimetres."}], "metadata": {"sample": 1}},
]


class _SizedProvider(MockProvider):
    """A provider with a window for a budget, the longest response and the contract's margin of 1000 tokens."""

    def __init__(self, budget: int) -> None:
        super().__init__(["A summary."])
        self._sizes = {"context_window": budget + 500 + 1000, "max_output_tokens": 500}

    def get_info(self) -> ProviderInfo:
        return ProviderInfo(id="sized", display_name="Sized", defaults=self._sizes)


class _UndescribedProvider(MockProvider):
    """A provider that does not describe itself."""

    def get_info(self) -> ProviderInfo:
        raise RuntimeError("there is no description")


class ContextBehaviorTests(ModuleBehaviorTests):
    """The rules that every context must follow."""

    mount_point = "context"

    @asynccontextmanager
    async def open_filled(self, messages: Sequence[dict[str, Any]], **config: Any) -> AsyncIterator[Any]:
        """Mount the context, and add messages."""
        async with self.open_module(**config) as context:
            for message in messages:
                await context.add_message(deepcopy(message))
            yield context

    async def test_it_has_the_methods_of_the_contract(self) -> None:
        async with self.open_module() as context:
            require_async_method(context, "add_message", "message")
            require_async_method(context, "get_messages_for_request", "token_budget", "provider")
            require_async_method(context, "get_messages")
            require_async_method(context, "set_messages", "messages")
            require_async_method(context, "clear")

    async def test_messages_are_kept_in_order_with_all_their_keys(self) -> None:
        async with self.open_filled(_CONVERSATION) as context:
            _require_equal(await context.get_messages(), _CONVERSATION, "get_messages()")

    async def test_a_request_gets_everything_that_fits(self) -> None:
        async with self.open_filled(_CONVERSATION) as context:
            _require_equal(await context.get_messages_for_request(), _CONVERSATION, "get_messages_for_request()")

    async def test_a_message_without_a_role_raises_value_error_and_is_not_stored(self) -> None:
        async with self.open_filled(_CONVERSATION) as context:
            try:
                await context.add_message({"content": "Who says this?"})
            except ValueError:
                _require_equal(await context.get_messages(), _CONVERSATION, "get_messages() after the ValueError")
            else:
                raise AssertionError("add_message accepts a message without a role")

    async def test_set_messages_replaces_the_history(self) -> None:
        async with self.open_filled(_CONVERSATION[:2]) as context:
            await context.set_messages(deepcopy(_CONVERSATION))
            _require_equal(await context.get_messages(), _CONVERSATION, "get_messages() after set_messages()")
            _require_equal(await context.get_messages_for_request(), _CONVERSATION, "the request after set_messages()")

    async def test_clear_removes_everything_and_the_context_remains_usable(self) -> None:
        async with self.open_filled(_CONVERSATION) as context:
            await context.clear()
            _require_equal(await context.get_messages(), [], "get_messages() after clear()")
            _require_equal(await context.get_messages_for_request(), [], "get_messages_for_request() after clear()")
            await context.add_message(deepcopy(_CONVERSATION[0]))
            _require_equal(await context.get_messages(), _CONVERSATION[:1], "a message that was added after clear()")

    async def test_lists_are_copies(self) -> None:
        async with self.open_filled(_CONVERSATION) as context:
            (await context.get_messages()).clear()
            _require_equal(await context.get_messages(), _CONVERSATION, "the history, after its list was changed,")
            (await context.get_messages_for_request()).clear()
            _require_equal(await context.get_messages(), _CONVERSATION, "the history, after a request was changed,")
            messages = deepcopy(_CONVERSATION)
            await context.set_messages(messages)
            messages.clear()
            _require_equal(await context.get_messages(), _CONVERSATION, "the history, after what was set was changed,")

    async def test_messages_that_are_added_concurrently_are_all_kept(self) -> None:
        async with self.open_module() as context:
            async with open_task_group() as tasks:
                for number in range(_CONCURRENT_MESSAGES):
                    tasks.start_soon(context.add_message, {"role": "user", "content": str(number)})
            numbers = sorted(int(message["content"]) for message in await context.get_messages())
            expected = list(range(_CONCURRENT_MESSAGES))
            require(numbers == expected, f"of {len(expected)} messages, {len(numbers)} are kept")

    async def test_token_budget_limits_a_request(self) -> None:
        async with self.open_filled(_build_conversation()) as context:
            _require_fit(await context.get_messages_for_request(token_budget=_BUDGET), _BUDGET)

    async def test_few_long_messages_are_limited_as_well(self) -> None:
        messages = [{"role": "user", "content": f"Message {number}: " + "words " * 1000} for number in range(8)]
        async with self.open_filled(messages) as context:
            _require_fit(await context.get_messages_for_request(token_budget=_BUDGET), _BUDGET)

    async def test_the_window_of_the_provider_limits_a_request(self) -> None:
        async with self.open_filled(_build_conversation()) as context:
            _require_fit(await context.get_messages_for_request(provider=_SizedProvider(_BUDGET)), _BUDGET)

    async def test_token_budget_overrides_the_provider(self) -> None:
        messages = _build_conversation()
        async with self.open_filled(messages) as context:
            request = await context.get_messages_for_request(token_budget=500_000, provider=_SizedProvider(_BUDGET))
            require(
                len(request) == len(messages), f"with room for all {len(messages)} messages there are {len(request)}"
            )

    async def test_max_tokens_is_the_budget_without_a_provider(self) -> None:
        async with self.open_filled(_build_conversation(), max_tokens=_BUDGET) as context:
            _require_fit(await context.get_messages_for_request(), _BUDGET)

    async def test_max_tokens_is_the_budget_if_the_provider_does_not_describe_itself(self) -> None:
        async with self.open_filled(_build_conversation(), max_tokens=_BUDGET) as context:
            for provider in (_UndescribedProvider(), object()):
                try:
                    request = await context.get_messages_for_request(provider=provider)
                except Exception as error:
                    raise AssertionError(f"the error of get_info() is raised: {error}") from error
                _require_fit(request, _BUDGET)

    async def test_the_default_budget_is_100_000_tokens(self) -> None:
        async with self.open_filled(_build_conversation(_TURNS)) as context:
            request = await context.get_messages_for_request()
            # The system message, and the four messages of each turn.
            require(len(request) == 1 + 4 * _TURNS, "a history of about 30,000 tokens is compacted")
            for message in _build_conversation(_TURNS * 5)[1:]:
                await context.add_message(message)
            _require_fit(await context.get_messages_for_request(), 100_000)

    async def test_compaction_never_changes_the_history(self) -> None:
        messages = _build_conversation()
        async with self.open_filled(messages) as context:
            await context.get_messages_for_request(token_budget=_BUDGET)
            _require_equal(await context.get_messages(), messages, "get_messages() after compaction")

    async def test_compaction_keeps_calls_and_results_together(self) -> None:
        async with self.open_filled(_build_conversation()) as context:
            for budget in range(_BUDGET, _BUDGET * 4, _BUDGET // 4):
                request = await context.get_messages_for_request(token_budget=budget)
                calls: list[str] = []
                results: list[str] = []
                for message in request:
                    calls += [call["id"] for call in message.get("tool_calls") or ()]
                    if message["role"] == "tool":
                        results.append(message["tool_call_id"])
                unpaired_ids = ", ".join(sorted(set(calls) ^ set(results)))
                require(not unpaired_ids, f"with {budget} tokens, a call or a result is alone: {unpaired_ids}")
                require(calls == results, f"with {budget} tokens, results are not in the order of their calls")

    async def test_compaction_keeps_system_messages(self) -> None:
        async with self.open_filled(_build_conversation()) as context:
            request = await context.get_messages_for_request(token_budget=_BUDGET)
            is_kept = any(_has_message(message, _CONVERSATION[0]) for message in request)
            require(is_kept, "the system message is left out")

    async def test_compaction_keeps_the_newest_message_and_the_order(self) -> None:
        messages = _build_conversation()
        async with self.open_filled(messages) as context:
            request = await context.get_messages_for_request(token_budget=_BUDGET)
            places = []
            for message in request:
                place = _locate_message(message, messages)
                if place is not None:
                    places.append(place)
            require(places == sorted(places), "the messages of a request are not in the order of the conversation")
            require(len(messages) - 1 in places, "the newest message is left out")

    async def test_the_same_history_gives_the_same_request(self) -> None:
        async with self.open_filled(_build_conversation()) as context:
            first = await context.get_messages_for_request(token_budget=_BUDGET)
            second = await context.get_messages_for_request(token_budget=_BUDGET)
            require(first == second, "two requests for the same history differ")

    async def test_compaction_emits_its_events(self) -> None:
        recorder = EventRecorder()
        async with self.mount_module() as coordinator:
            context = coordinator.mount_points["context"]
            names = ["context:pre_compact", "context:post_compact"]
            for event in names:
                coordinator.hooks.register(event, recorder)
            messages = _build_conversation()
            for message in messages:
                await context.add_message(message)
            await context.get_messages_for_request()
            require(not recorder.events, "an event of compaction is emitted although everything fits")
            request = await context.get_messages_for_request(token_budget=_BUDGET)
        require([event for event, _ in recorder.events] == names, f"compaction does not emit {' and '.join(names)}")
        (_, before), (_, after) = recorder.events
        counts = [before.get("message_count"), after.get("message_count")]
        require(counts == [len(messages), len(request)], f"message_count is {counts} before and after compaction")
        numbers: list[Any] = [before.get("token_count"), after.get("token_count")]
        shrinks = all(isinstance(number, int) for number in numbers) and numbers[0] > numbers[1] > 0
        require(shrinks, f"token_count is {numbers} before and after compaction")


def _build_conversation(turns: int = _TURNS) -> Messages:
    """Return a conversation with a system message, and two tool calls in each turn: about 500 tokens a turn."""
    messages = deepcopy(_CONVERSATION[:1])
    for index in range(turns):
        ids = [f"call_{index}_0", f"call_{index}_1"]
        calls = [{"id": call_id, "tool": "read", "arguments": {"name": call_id}} for call_id in ids]
        messages.append({"role": "user", "content": f"Task {index}. " + "Read both of them. " * 10})
        messages.append({"role": "assistant", "content": "", "tool_calls": calls})
        for call_id in ids:
            text = f"{call_id}: " + "a line of it " * 50
            messages.append({"role": "tool", "tool_call_id": call_id, "content": text})
    return messages


def _require_equal(messages: Any, expected: Messages, subject: str) -> None:
    is_same = isinstance(messages, list) and len(messages) == len(expected)
    if is_same:
        is_same = all(map(_has_message, messages, expected))
    require(is_same, f"{subject} is {messages!r:.300} instead of {expected!r:.300}")


def _has_message(message: Any, sample: dict[str, Any]) -> bool:
    """Return whether a message has everything of the sample. Contexts may add keys, and metadata such as a time."""
    metadata = message.get("metadata") or {}
    for key, value in sample.items():
        if key != "metadata" and message.get(key) != value:
            return False
    return {**metadata, **sample.get("metadata", {})} == metadata


def _locate_message(message: dict[str, Any], history: Messages) -> int | None:
    return next((place for place, sample in enumerate(history) if _has_message(message, sample)), None)


def _require_fit(messages: Messages, budget: int) -> None:
    """Require the contents of messages to fit in the budget. Contexts may count more than the contents."""
    require(messages, "a request gets no messages at all")
    tokens = sum(len(str(message.get("content") or "")) for message in messages) // _CHARACTERS_PER_TOKEN
    require(tokens <= budget, f"a request gets about {tokens} tokens, with a budget of {budget}")
