"""The tool calls and results of an incomplete history, as the APIs of models require them."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_bridge._integrations.amplifier.message_models import Message, TextBlock, ToolCall, ToolResultBlock
from mcp_bridge._integrations.amplifier.providers.history import list_calls, pair_results


def test_a_message_of_results_keeps_its_calls() -> None:
    call = {"id": "call_2", "name": "measure", "arguments": {}}
    result: Any = ToolResultBlock(tool_call_id="call_1", output="3")
    message = Message(role="assistant", content=[result], tool_calls=[call])
    reply = Message(role="tool", tool_call_id="call_2", content="4")
    ordered_message, ordered_reply = pair_results([message, reply])
    assert [call.id for call in list_calls(ordered_message)] == ["call_2"]
    assert ordered_reply.tool_call_id == "call_2"


@pytest.mark.parametrize("call", [{"name": "measure"}, {"id": None, "name": "measure"}, {"id": 1}, "measure"])
def test_a_call_without_an_id_is_left_out(call: Any) -> None:
    message = Message(role="assistant", content=[TextBlock(text="I look.")], tool_calls=[call])
    assert pair_results([message]) == [message]


@pytest.mark.parametrize(
    "call", [ToolCall(id="call_1", name="measure"), {"id": "call_1", "name": "measure", "function": "measure"}]
)
def test_a_call_in_an_unusual_form_is_read(call: Any) -> None:
    [block] = list_calls(Message(role="assistant", content="", tool_calls=[call]))
    assert (block.id, block.name, block.input) == ("call_1", "measure", {})
