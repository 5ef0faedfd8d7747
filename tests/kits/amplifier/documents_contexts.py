"""Checks of the examples of the Context contract.

The documents of Amplifier contain code examples. `CONTEXT_CHECKS` has a function for each example, by the first line
of the example. The function runs the example and checks that the code behaves as the document describes.
test_amplifier_documents.py calls it. Examples that are parts of one class are put together first (documents_pieces.py).
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import mcp_bridge.amplifier as ours
from mcp_bridge.amplifier.testing import MockContextManager, MockProvider, TestCoordinator
from tests.kits.amplifier.documents_pieces import build_context_class
from tests.kits.amplifier.documents_reading import Example
from tests.kits.amplifier.documents_running import evaluate_expressions, run_example, run_example_tests

USER = {"role": "user", "content": "Hi"}
CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "text"}


async def build_context(example: Example, **settings: Any) -> Any:
    """Return an instance of the document's MyContextManager, with the methods of one example in place of its own."""
    context_class = await build_context_class()
    names = await run_example(example)
    for name, value in names.items():
        if getattr(value, "__module__", "") == "example":
            setattr(context_class, name, value)
    return context_class(**settings)


async def check_protocol(example: Example) -> None:
    """Check that the protocols of the document and of this package accept the same context managers."""
    documented_protocol = (await run_example(example))["ContextManager"]
    for context in (MockContextManager(), (await build_context_class())()):
        assert isinstance(context, documented_protocol)
        assert isinstance(context, ours.ContextManager)
    assert not isinstance(object(), documented_protocol | ours.ContextManager)


async def check_messages(example: Example) -> None:
    """Check that a context stores each message of the document."""
    context = MockContextManager()
    for message in await evaluate_expressions(example):
        await context.add_message(message)
    assert [message["role"] for message in context.messages] == ["user", "assistant", "assistant", "system", "tool"]


async def check_mount(example: Example) -> None:
    """Check that `mount` mounts the context under both names: `context`, and `context` in `session`."""
    mount = (await run_example(example, MyContextManager=await build_context_class()))["mount"]
    coordinator = TestCoordinator()
    context = await mount(coordinator, {"max_tokens": 7})
    assert coordinator.get("context") is context is coordinator.get_mounted("session", "context")
    assert context._max_tokens == 7


async def check_add_message(example: Example) -> None:
    """Check that a message without a role is rejected."""
    context = await build_context(example)
    await context.add_message(USER)
    with pytest.raises(ValueError, match="role"):
        await context.add_message({"content": "a message without a role"})
    assert context._messages == [USER]


async def check_budget(example: Example) -> None:
    """Check the token budget: the argument takes precedence over the provider's limit, and that over the settings.

    Then check that a request stays within the budget.
    """
    context = await build_context(example, max_tokens=50)
    assert context._calculate_budget(5, None) == 5
    # The window of the provider, minus its output tokens, minus the document's safety margin.
    assert context._calculate_budget(None, MockProvider()) == 8192 - 1024 - 1000
    assert context._calculate_budget(None, None) == 50
    await context.set_messages([USER] * 40)
    assert len(await context.get_messages_for_request()) == 10


async def check_get_messages(example: Example) -> None:
    """Check that a caller can change the returned list without changing the context."""
    context = await build_context(example)
    await context.add_message(USER)
    (await context.get_messages()).clear()
    assert await context.get_messages() == [USER]


async def check_set_messages(example: Example) -> None:
    """Check that `set_messages` replaces the messages, unless the context has loaded its history from a file."""
    context = await build_context(example)
    context._write_to_file = lambda: None
    context._loaded_from_file = False
    await context.set_messages([USER])
    context._loaded_from_file = True
    await context.set_messages([])
    # Only one of the two examples with this method reads a file.
    reads_file = "_loaded_from_file" in example.text
    assert context._messages == ([USER] if reads_file else [])


async def check_clear(example: Example) -> None:
    """Check that `clear` removes all messages."""
    context = await build_context(example)
    await context.add_message(USER)
    await context.clear()
    assert await context.get_messages() == []


async def check_ephemeral_compaction(example: Example) -> None:
    """Check that this form of compaction shortens the request and keeps all stored messages."""
    context = await build_context(example)
    context._count_tokens = len
    context._should_compact = lambda count, budget: count > budget
    context._compact_messages = lambda messages, budget: messages[-budget:]
    await context.set_messages([USER] * 5)
    assert len(await context.get_messages_for_request(token_budget=2)) == 2
    assert len(await context.get_messages_for_request(token_budget=9)) == 5
    assert len(await context.get_messages()) == 5


async def check_stored_compaction(example: Example) -> None:
    """Check that compaction keeps a tool result with its call, and emits both events."""
    context = await build_context(example)
    context._keep_recent = 1
    await context.set_messages([{"role": "system", "content": "be kind"}, USER, CALL, RESULT])
    await context._compact_internal()
    assert context._messages[-2:] == [CALL, RESULT]
    assert [event for event, _ in context._hooks.events] == ["context:pre_compact", "context:post_compact"]


async def check_truncation(example: Example) -> None:
    """Check that truncation keeps the most recent messages, and the call of a kept tool result."""
    context = SimpleNamespace(_messages=[USER, CALL, RESULT])
    await run_example(example, self=context, keep_count=1)
    assert context._messages == [CALL, RESULT]


async def check_summary(example: Example) -> None:
    """Check that a summary replaces the older messages."""

    async def summarize(messages: list[Any]) -> str:
        return f"{len(messages)} messages"

    context = SimpleNamespace(_messages=[USER, CALL, RESULT])
    await run_example(example, self=context, keep_recent=2, summarize=summarize)
    assert context._messages[0]["content"] == "Previous conversation summary: 1 messages"
    assert context._messages[1:] == [CALL, RESULT]


async def check_importance(example: Example) -> None:
    """Check that the messages with the highest scores are kept."""
    context = SimpleNamespace(
        _messages=[USER, CALL, RESULT],
        _score_importance=lambda message: message["role"] != "user",
        _reorder_preserving_tool_pairs=lambda messages: messages,
    )
    await run_example(example, self=context, keep_count=2)
    assert context._messages == [CALL, RESULT]


async def check_tests(example: Example) -> None:
    """Run the document's tests."""
    assert await run_example_tests(await run_example(example, MyContextManager=await build_context_class())) == 3


async def run_assertions(example: Example) -> None:
    """Run an example that contains its own assertions."""
    await run_example(example)


CONTEXT_CHECKS = {
    "class ContextManager(Protocol):": check_protocol,
    "# User message": check_messages,
    "async def mount(coordinator: ModuleCoordinator, config: dict) -> ContextManager | Callable | None:": check_mount,
    "async def add_message(self, message: dict[str, Any]) -> None:": check_add_message,
    "async def get_messages_for_request(": check_budget,
    "async def get_messages(self) -> list[dict[str, Any]]:": check_get_messages,
    "async def set_messages(self, messages: list[dict[str, Any]]) -> None:": check_set_messages,
    "async def clear(self) -> None:": check_clear,
    "async def get_messages_for_request(self, token_budget=None, provider=None):": check_ephemeral_compaction,
    "async def _compact_internal(self) -> None:": check_stored_compaction,
    "keep_from = len(self._messages) - keep_count": check_truncation,
    "old_messages = self._messages[:-keep_recent]": check_summary,
    "scored = [(m, self._score_importance(m)) for m in self._messages]": check_importance,
    "async def test_context_manager():": check_tests,
    "context = MockContextManager()": run_assertions,
}
