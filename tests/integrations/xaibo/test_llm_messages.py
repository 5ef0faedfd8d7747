"""Messages, options and responses of a language model are like those of Xaibo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from mcp_bridge.xaibo import (
    LLMFunctionCall,
    LLMMessage,
    LLMMessageContent,
    LLMMessageContentType,
    LLMOptions,
    LLMResponse,
    LLMRole,
    LLMUsage,
)


@pytest.mark.parametrize("role", ["system", "user", "assistant"])
def test_a_text_message_has_a_role(role: str) -> None:
    message = getattr(LLMMessage, role)("Hello", name="Ada")
    content = LLMMessageContent(type=LLMMessageContentType.TEXT, text="Hello")
    assert (message.role, message.content, message.name) == (LLMRole(role), [content], "Ada")


def test_a_call_and_its_result_are_messages_with_one_id() -> None:
    call = LLMMessage.function("c1", "add", {"a": 1})
    result = LLMMessage.function_result("c1", "add", "2")
    assert call.role is result.role is LLMRole.FUNCTION
    assert (call.content, call.tool_calls) == ([], [LLMFunctionCall(id="c1", name="add", arguments={"a": 1})])
    assert [content.model_dump() for content in result.tool_results or []] == [
        {"id": "c1", "name": "add", "content": "2"}
    ]


@pytest.mark.parametrize(("name", "case"), [("a.png", "image/png"), ("a.txt", "image/jpeg"), ("a", "image/jpeg")])
def test_an_image_becomes_a_data_uri(tmp_path: Path, name: str, case: str) -> None:
    (tmp_path / name).write_bytes(b"\x00\xff")
    (content,) = LLMMessage.user_image(str(tmp_path / name)).content
    assert (content.type, content.image) == (LLMMessageContentType.IMAGE, f"data:{case};base64,AP8=")


def test_a_missing_image_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        LLMMessage.user_image(str(tmp_path / "none.png"))


@pytest.mark.parametrize("arguments", [{"temperature": 2.1}, {"temperature": -1}, {"top_p": 1.1}, {"top_p": -0.1}])
def test_options_out_of_range_are_rejected(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        LLMOptions(**arguments)


def test_options_may_be_none() -> None:
    options = LLMOptions(temperature=None, top_p=None)
    assert (options.temperature, options.top_p, options.functions) == (None, None, None)
    assert (LLMOptions().temperature, LLMOptions().top_p) == (1.0, 1.0)


def test_responses_are_merged_in_order_and_their_tokens_added_up() -> None:
    call = LLMFunctionCall(id="1", name="add", arguments={})
    usage = LLMUsage(prompt_tokens=1, completion_tokens=2, total_tokens=3)
    first = LLMResponse(content="a", tool_calls=[call], usage=usage, vendor_specific={"x": 1, "y": 1})
    merged = LLMResponse.merge(first, LLMResponse(content="b", usage=usage, vendor_specific={"x": 2}))
    assert (merged.content, merged.tool_calls, merged.vendor_specific) == ("a\nb", [call], {"x": 2, "y": 1})
    assert merged.usage == LLMUsage(prompt_tokens=2, completion_tokens=4, total_tokens=6)
    assert usage.total_tokens == 3
    plain = LLMResponse.merge(LLMResponse(content="a", vendor_specific=None))
    assert (plain.tool_calls, plain.usage, plain.vendor_specific) == (None, None, {})


def test_merged_responses_are_those_of_xaibo() -> None:
    from xaibo.core.models import llm

    arguments: list[dict[str, Any]] = [
        {"content": "a", "tool_calls": [{"id": "1", "name": "n", "arguments": {}}], "vendor_specific": {"k": 1}},
        {"content": "b", "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}},
    ]
    ours = LLMResponse.merge(*(LLMResponse(**item) for item in arguments))
    real = llm.LLMResponse.merge(*(llm.LLMResponse(**item) for item in arguments))
    assert ours.model_dump() == real.model_dump()
