"""How the examples of the Context contract are used."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import mcp_bridge.amplifier as ours
from mcp_bridge.amplifier.testing import MockContextManager, MockProvider, TestCoordinator
from tests.kits.amplifier.documents_pieces import my_context
from tests.kits.amplifier.documents_reading import Example
from tests.kits.amplifier.documents_running import run, run_tests, values

USER = {"role": "user", "content": "Hi"}
CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "text"}


async def made(example: Example, **settings: Any) -> Any:
    """Return a context manager of the document with the methods of one example."""
    context_class = await my_context()
    names = await run(example)
    for name, value in names.items():
        if getattr(value, "__module__", "") == "example":
            setattr(context_class, name, value)
    return context_class(**settings)


async def protocol(example: Example) -> None:
    """Contexts have the documented shape, in the document and in this package."""
    theirs = (await run(example))["ContextManager"]
    for context in (MockContextManager(), (await my_context())()):
        assert isinstance(context, theirs)
        assert isinstance(context, ours.ContextManager)
    assert not isinstance(object(), theirs | ours.ContextManager)


async def messages(example: Example) -> None:
    """Messages of the documents are remembered as they are."""
    names, context = await values(example), MockContextManager()
    for message in names:
        await context.add_message(message)
    assert [message["role"] for message in context.messages] == ["user", "assistant", "assistant", "system", "tool"]


async def mounts(example: Example) -> None:
    """The mount points of the document and of amplifier-core have it."""
    mount = (await run(example, MyContextManager=await my_context()))["mount"]
    coordinator = TestCoordinator()
    context = await mount(coordinator, {"max_tokens": 7})
    assert coordinator.get("context") is context is coordinator.get_mounted("session", "context")
    assert context._max_tokens == 7


async def adds(example: Example) -> None:
    """A message needs a role."""
    context = await made(example)
    await context.add_message(USER)
    with pytest.raises(ValueError, match="role"):
        await context.add_message({"content": "from nobody"})
    assert context._messages == [USER]


async def prepares(example: Example) -> None:
    """Check the budget and compaction. The argument goes before the provider's limit, and that before the settings."""
    context = await made(example, max_tokens=50)
    assert context._calculate_budget(5, None) == 5
    assert context._calculate_budget(None, MockProvider()) == 8192 - 1024 - 1000
    assert context._calculate_budget(None, None) == 50
    await context.set_messages([USER] * 40)
    assert len(await context.get_messages_for_request()) == 10


async def returns(example: Example) -> None:
    """All messages are in a new list."""
    context = await made(example)
    await context.add_message(USER)
    (await context.get_messages()).clear()
    assert await context.get_messages() == [USER]


async def resumes(example: Example) -> None:
    """Messages are set, except where a file has more of them."""
    context = await made(example)
    context._write_to_file = lambda: None
    for has_history in (False, True):
        context._loaded_from_file = has_history
        await context.set_messages([USER] if not has_history else [])
    assert context._messages == ([USER] if "_loaded_from_file" in example.text else [])


async def clears(example: Example) -> None:
    """Nothing is left."""
    context = await made(example)
    await context.add_message(USER)
    await context.clear()
    assert await context.get_messages() == []


async def views(example: Example) -> None:
    """Compaction creates a view; the stored messages do not change."""
    context = await made(example)
    context._count_tokens = len
    context._should_compact = lambda count, budget: count > budget
    context._compact_messages = lambda found, budget: found[-budget:]
    await context.set_messages([USER] * 5)
    assert len(await context.get_messages_for_request(token_budget=2)) == 2
    assert len(await context.get_messages_for_request(token_budget=9)) == 5
    assert len(await context.get_messages()) == 5


async def compacts(example: Example) -> None:
    """A result stays with its call, and both events are emitted."""
    context = await made(example)
    context._keep_recent = 1
    await context.set_messages([{"role": "system", "content": "be kind"}, USER, CALL, RESULT])
    await context._compact_internal()
    assert context._messages[-2:] == [CALL, RESULT]
    assert [event for event, _ in context._hooks.events] == ["context:pre_compact", "context:post_compact"]


async def truncates(example: Example) -> None:
    """The most recent messages, and a result with its call."""
    context = SimpleNamespace(_messages=[USER, CALL, RESULT])
    await run(example, self=context, keep_count=1)
    assert context._messages == [CALL, RESULT]


async def summarizes(example: Example) -> None:
    """Older messages become one."""

    async def summarize(found: list[Any]) -> str:
        return f"{len(found)} messages"

    context = SimpleNamespace(_messages=[USER, CALL, RESULT])
    await run(example, self=context, keep_recent=2, summarize=summarize)
    assert context._messages[0]["content"] == "Previous conversation summary: 1 messages"
    assert context._messages[1:] == [CALL, RESULT]


async def scores(example: Example) -> None:
    """The most important messages."""
    context = SimpleNamespace(
        _messages=[USER, CALL, RESULT],
        _score_importance=lambda message: message["role"] != "user",
        _reorder_preserving_tool_pairs=lambda found: found,
    )
    await run(example, self=context, keep_count=2)
    assert context._messages == [CALL, RESULT]


async def tests(example: Example) -> None:
    """The document's tests pass."""
    assert await run_tests(await run(example, MyContextManager=await my_context())) == 3


async def replaces_context(example: Example) -> None:
    """The document's assertion holds."""
    await run(example)


USES = {
    "class ContextManager(Protocol):": protocol,
    "# User message": messages,
    "async def mount(coordinator: ModuleCoordinator, config: dict) -> ContextManager | Callable | None:": mounts,
    "async def add_message(self, message: dict[str, Any]) -> None:": adds,
    "async def get_messages_for_request(": prepares,
    "async def get_messages(self) -> list[dict[str, Any]]:": returns,
    "async def set_messages(self, messages: list[dict[str, Any]]) -> None:": resumes,
    "async def clear(self) -> None:": clears,
    "async def get_messages_for_request(self, token_budget=None, provider=None):": views,
    "async def _compact_internal(self) -> None:": compacts,
    "keep_from = len(self._messages) - keep_count": truncates,
    "old_messages = self._messages[:-keep_recent]": summarizes,
    "scored = [(m, self._score_importance(m)) for m in self._messages]": scores,
    "async def test_context_manager():": tests,
    "context = MockContextManager()": replaces_context,
}
