"""provider-scripted: responses from a configuration."""

from __future__ import annotations

import pytest

from mcp_bridge._integrations.amplifier.message_models import ChatRequest, Message
from mcp_bridge._integrations.amplifier.providers import scripted_provider
from mcp_bridge.amplifier.testing import TestCoordinator

RESPONSES = [{"text": "I look.", "calls": [{"name": "read", "arguments": {"path": "a"}}]}, "It is empty."]


async def test_responses_come_in_turn_for_each_history() -> None:
    coordinator = TestCoordinator()
    provider = await scripted_provider.mount(coordinator, {"responses": RESPONSES})
    assert coordinator.get("providers") == {"scripted": provider}
    texts: list[str] = []

    async def listen(part: str) -> None:
        texts.append(part)

    messages = [Message(role="user", content="What is in it?")]
    for expected in ("I look.", "It is empty.", "It is empty."):
        response = await provider.complete(ChatRequest(messages=messages), on_text=listen)
        assert response.content[0].text == expected
        messages += [Message(role="assistant", content=response.content)]
    assert texts == ["I look.", "It is empty.", "It is empty."]
    first = await provider.complete(ChatRequest(messages=messages[:1]))
    [call] = provider.parse_tool_calls(first)
    assert (call.name, call.arguments) == ("read", {"path": "a"})
    assert call.id != provider.parse_tool_calls(await provider.complete(ChatRequest(messages=messages[:1])))[0].id


@pytest.mark.parametrize("responses", ["text", [{"txt": "hello"}], [{"calls": [{}]}]])
async def test_invalid_responses_are_rejected(responses: object) -> None:
    with pytest.raises(ValueError, match="validation error"):
        await scripted_provider.mount(TestCoordinator(), {"responses": responses})
