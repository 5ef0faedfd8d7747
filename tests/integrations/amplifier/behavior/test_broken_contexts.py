"""Every rule of the suite for contexts finds a violation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcp_bridge._integrations.amplifier.behavior import ContextBehaviorTests
from mcp_bridge._integrations.amplifier.contexts.simple import ContextConfig, SimpleContext
from mcp_bridge.amplifier.testing import MockContextManager
from tests.kits.amplifier.broken_modules import list_own_rules, run_rule


class WithoutWaiting(MockContextManager):
    def clear(self) -> None:  # type: ignore[override]
        self.messages = []


class Stripping(MockContextManager):
    async def add_message(self, message: dict[str, Any]) -> None:
        await super().add_message({key: message[key] for key in ("role", "content")})


class Forgetful(MockContextManager):
    async def get_messages_for_request(self, token_budget: Any = None, provider: Any = None) -> Any:
        return self.messages[-2:]


class Lenient(MockContextManager):
    async def add_message(self, message: dict[str, Any]) -> None:
        self.messages.append(message)


class Appending(MockContextManager):
    async def set_messages(self, messages: list[dict[str, Any]]) -> None:
        self.messages += messages


class Uncleared(MockContextManager):
    async def clear(self) -> None:
        self.messages = self.messages[:1]


class Sharing(MockContextManager):
    async def get_messages(self) -> Any:
        return self.messages


class Racing(MockContextManager):
    async def add_message(self, message: dict[str, Any]) -> None:
        before = list(self.messages)
        await anyio.lowlevel.checkpoint()
        self.messages = [*before, message]


class Changing(SimpleContext):
    """Returns the newest messages within the budget, and forgets the others."""

    async def get_messages_for_request(self, token_budget: Any = None, provider: Any = None) -> Any:
        fitting = await super().get_messages_for_request(token_budget, provider)
        await self.set_messages(fitting)
        return fitting


class Deaf(SimpleContext):
    """Has the methods, and ignores an argument."""

    def __init__(self, config: Any, hooks: Any, ignored: str) -> None:
        super().__init__(config, hooks)
        self._ignored = ignored

    async def get_messages_for_request(self, token_budget: Any = None, provider: Any = None) -> Any:
        arguments = {"token_budget": token_budget, "provider": provider}
        return await super().get_messages_for_request(**{**arguments, self._ignored: None})


class ProviderFirst(SimpleContext):
    async def get_messages_for_request(self, token_budget: Any = None, provider: Any = None) -> Any:
        return await super().get_messages_for_request(None if provider else token_budget, provider)


class Counting(SimpleContext):
    """Limits the number of messages instead of their length."""

    async def get_messages_for_request(self, token_budget: Any = None, provider: Any = None) -> Any:
        return (await self.get_messages())[-20:]


class Trusting(SimpleContext):
    async def get_messages_for_request(self, token_budget: Any = None, provider: Any = None) -> Any:
        if provider is not None:
            provider.get_info()
        return await super().get_messages_for_request(token_budget, provider)


class Filtered(SimpleContext):
    """Leaves out a message of each compacted request."""

    async def get_messages_for_request(self, token_budget: Any = None, provider: Any = None) -> Any:
        messages = await super().get_messages_for_request(token_budget, provider)
        return self.filter_messages(messages) if len(messages) < len(await self.get_messages()) else messages

    def filter_messages(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        raise NotImplementedError


class Separating(Filtered):
    def filter_messages(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        first = next(at for at, message in enumerate(messages) if message["role"] == "assistant")
        return messages[:first] + messages[first + 1 :]


class Unguided(Filtered):
    def filter_messages(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [message for message in messages if message["role"] != "system"]


class Backward(Filtered):
    def filter_messages(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return messages[::-1]


class Moody(Filtered):
    answers = 0

    def filter_messages(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        self.answers += 1
        return messages[self.answers :]


def build_without_hooks(config: Any, hooks: Any) -> SimpleContext:
    return SimpleContext(config)


def build_small_context(config: Any, hooks: Any) -> SimpleContext:
    return SimpleContext(ContextConfig(max_tokens=10_000), hooks)


BROKEN: dict[str, Any] = {
    "it_has_the_methods_of_the_contract": WithoutWaiting,
    "messages_are_kept_in_order_with_all_their_keys": Stripping,
    "a_request_gets_everything_that_fits": Forgetful,
    "a_message_without_a_role_raises_value_error_and_is_not_stored": Lenient,
    "set_messages_replaces_the_history": Appending,
    "clear_removes_everything_and_the_context_remains_usable": Uncleared,
    "lists_are_copies": Sharing,
    "messages_that_are_added_concurrently_are_all_kept": Racing,
    "token_budget_limits_a_request": lambda config, hooks: Deaf(config, hooks, "token_budget"),
    "few_long_messages_are_limited_as_well": Counting,
    "the_window_of_the_provider_limits_a_request": lambda config, hooks: Deaf(config, hooks, "provider"),
    "token_budget_overrides_the_provider": ProviderFirst,
    "max_tokens_is_the_budget_without_a_provider": lambda config, hooks: SimpleContext(None, hooks),
    "max_tokens_is_the_budget_if_the_provider_does_not_describe_itself": Trusting,
    "the_default_budget_is_100_000_tokens": build_small_context,
    "compaction_never_changes_the_history": Changing,
    "compaction_keeps_calls_and_results_together": Separating,
    "compaction_keeps_system_messages": Unguided,
    "compaction_keeps_the_newest_message_and_the_order": Backward,
    "the_same_history_gives_the_same_request": Moody,
    "compaction_emits_its_events": build_without_hooks,
}
"""A context that breaks the rule, by rule: a class, or what creates the context."""


def build_module(context_type: Any) -> Any:
    async def mount(coordinator: Any, config: dict[str, Any]) -> None:
        is_mock = isinstance(context_type, type) and issubclass(context_type, MockContextManager)
        context = context_type() if is_mock else context_type(ContextConfig(**config), coordinator.hooks)
        await coordinator.mount("context", context)

    return SimpleNamespace(mount=mount)


def test_every_rule_has_an_example() -> None:
    assert list_own_rules(ContextBehaviorTests) == set(BROKEN)


@pytest.mark.parametrize("rule", BROKEN)
async def test_a_rule_finds_a_context_that_breaks_it(rule: str) -> None:
    assert await run_rule(ContextBehaviorTests, rule, build_module(SimpleContext)) == ""
    assert await run_rule(ContextBehaviorTests, rule, build_module(BROKEN[rule]))
