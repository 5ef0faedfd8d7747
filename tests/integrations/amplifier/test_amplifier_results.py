"""The results of tools in both forms, and their text for a model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from mcp_bridge._contracts.content import Image as ImageContent
from mcp_bridge._contracts.content import Text
from mcp_bridge._integrations.amplifier.results import render_content
from mcp_bridge.amplifier import (
    ChatResponse,
    HookResult,
    Message,
    ReasoningBlock,
    RedactedThinkingBlock,
    ThinkingBlock,
    ToolResult,
)
from tests.kits.fuzzing import use_examples


@pytest.mark.parametrize(
    ("value", "success"),
    [
        ({}, True),
        ({"success": True}, True),
        ({"success": False}, False),
        ({"is_error": False}, True),
        ({"is_error": True}, False),
        ({"success": False, "is_error": True}, False),
        ({"success": True, "is_error": False}, True),
        ({"success": True, "is_error": None}, True),
    ],
)
def test_a_result_has_one_of_two_forms(value: dict[str, Any], success: bool) -> None:
    result = ToolResult(**value)
    assert (result.success, result.is_error) == (success, not success)
    assert ToolResult.model_validate(result.model_dump()) == result
    assert ToolResult.model_validate_json(result.model_dump_json()) == result


@pytest.mark.parametrize("success", [True, False])
def test_a_contradictory_result_is_rejected(success: bool) -> None:
    with pytest.raises(ValidationError, match="contradict each other"):
        ToolResult(success=success, is_error=success, output="s3cret")


@pytest.mark.parametrize("is_error", ["false", 0, "yes", []])
def test_is_error_is_true_or_false(is_error: Any) -> None:
    with pytest.raises(ValidationError, match="is_error must be true or false"):
        ToolResult(is_error=is_error)


def test_the_error_of_an_invalid_result_does_not_show_its_data() -> None:
    with pytest.raises(ValidationError) as caught:
        ToolResult(success="s3cret", output="s3cret")  # type: ignore[arg-type]
    assert "s3cret" not in str(caught.value)
    with pytest.raises(ValidationError) as caught:
        HookResult(action="s3cret")  # type: ignore[arg-type]
    assert "s3cret" not in str(caught.value)


def test_success_and_is_error_of_a_changed_result_agree() -> None:
    result = ToolResult(is_error=True)
    result.success = True
    assert result.is_error is False
    result.is_error = True
    assert result.success is False
    assert ToolResult().model_copy(update={"success": False}).is_error is True


def test_the_error_message_is_the_output_of_a_failure_without_output() -> None:
    assert ToolResult(success=False, error={"message": "gone"}).output == "gone"
    assert ToolResult(success=False, output={"code": 3}, error={"message": "gone"}).output == {"code": 3}
    assert ToolResult(error={"message": "gone"}).output is None
    assert ToolResult(success=False, error={"type": "X"}).output is None


class Model(BaseModel):
    """A model in an output."""

    a: int = 1


class Odd:
    """An object without a text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@dataclass
class Plain:
    """An object with a text."""

    a: int = 1

    def __str__(self) -> str:
        return "plain"


TEXTS = [
    (ToolResult(), "Success"),
    (ToolResult(success=False), "Error: Unknown error"),
    (ToolResult(success=False, error={"code": 3}), "Error: Unknown error"),
    (ToolResult(success=False, error={"message": "gone"}), "gone"),
    (ToolResult(output="text\twith\n\x00\x1b[31m\ud800control"), "text\twith\n[31mcontrol"),
    (ToolResult(output=True), "True"),
    (ToolResult(output=1.5), "1.5"),
    (ToolResult(output=float("nan")), "nan"),
    (ToolResult(output=""), ""),
    (ToolResult(output={"a": [1, None, "ü"]}), '{"a": [1, null, "\\u00fc"]}'),
    (ToolResult(output={"a": float("nan"), "b": [float("-inf")]}), '{"a": null, "b": [null]}'),
    (ToolResult(output={"a": b"\xff\x00", "b": bytearray(b"1")}), '{"a": "/wA=", "b": "MQ=="}'),
    (ToolResult(output=b"\xff\x00"), "/wA="),
    (ToolResult(output={"at": datetime(2026, 1, 2, tzinfo=UTC)}), '{"at": "2026-01-02T00:00:00+00:00"}'),
    (ToolResult(output=date(2026, 1, 2)), "2026-01-02"),
    (ToolResult(output={"a": {1}, "b": (1, 2), "c": Decimal("9.99")}), '{"a": [1], "b": [1, 2], "c": "9.99"}'),
    (ToolResult(output={(1, 2): "a", b"k": "b"}), '{"[1,2]": "a", "aw==": "b"}'),
    (ToolResult(output=Model()), '{"a": 1}'),
    (ToolResult(output=[Model(), Plain()]), '[{"a": 1}, {"a": 1}]'),
    (ToolResult(output=[1, Odd()]), "<list>"),
    (ToolResult(output=(1, 2)), "[1, 2]"),
    (ToolResult(success=False, output={"returncode": 3, "stdout": "out"}), '{"returncode": 3, "stdout": "out"}'),
]


@pytest.mark.parametrize(("result", "text"), TEXTS)
def test_any_output_becomes_text_for_a_model(result: ToolResult, text: str) -> None:
    assert result.get_serialized_output() == text


def test_an_output_that_contains_itself_is_shown_by_its_type() -> None:
    output: dict[str, Any] = {"a": 1}
    output["itself"] = output
    assert ToolResult(output=output).get_serialized_output() == "<dict>"


@use_examples(50)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates() | st.decimals(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers() | st.binary(), inner),
        max_leaves=10,
    )
)
def test_data_is_always_json(output: Any) -> None:
    text = ToolResult(output={"output": output}).get_serialized_output()
    json.loads(text, parse_constant=lambda constant: pytest.fail(constant))


def test_blocks_of_every_kind_are_preserved() -> None:
    blocks = [
        {"type": "text", "text": "hi", "visibility": "user"},
        {"type": "thinking", "thinking": "hm", "signature": "signed"},
        {"type": "redacted_thinking", "data": "?"},
        {"type": "reasoning", "content": ["x"], "summary": []},
        {"type": "tool_call", "id": "1", "name": "read", "input": {"a": 1}},
        {"type": "tool_result", "tool_call_id": "1", "output": None},
        {"type": "image", "source": {"type": "base64", "data": ""}},
    ]
    response = ChatResponse.model_validate({"content": blocks, "usage": {"input_tokens": 1, "cache": 2}})
    assert [type(response.content[at]) for at in (1, 2, 3)] == [ThinkingBlock, RedactedThinkingBlock, ReasoningBlock]
    assert response.model_dump()["content"] == blocks
    assert response.usage is not None
    assert response.usage.model_dump()["cache"] == 2
    with pytest.raises(ValidationError):
        Message.model_validate({"role": "user", "content": [{"type": "sound"}]})


def test_an_invalid_approval_timeout_is_rejected() -> None:
    for seconds in (-1, float("nan"), "soon"):
        with pytest.raises(ValidationError):
            HookResult(approval_timeout=seconds)  # type: ignore[arg-type]
    assert HookResult(approval_timeout=float("inf")).approval_timeout == float("inf")


def test_a_result_of_another_package_is_read_by_its_fields() -> None:
    theirs = SimpleNamespace(tool_call_id="7", output={"a": 1}, is_error=True)
    assert ToolResult(**vars(theirs)).model_dump(exclude_none=True) == {
        "success": False,
        "output": {"a": 1},
        "tool_call_id": "7",
        "is_error": True,
    }


def test_content_is_text_for_a_model() -> None:
    assert render_content("plain") == "plain"
    assert render_content(["plain", Text("a block"), ImageContent(b"png", "image/png"), b"bytes"]) == (
        "plain\na block\n[Image]\n[bytes]"
    )
