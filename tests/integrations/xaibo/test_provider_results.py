"""The results and errors of providers reach the model word for word, and come back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from mcp_bridge import xaibo
from mcp_bridge._contracts.content import Image, Text
from mcp_bridge._contracts.errors import ToolError
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolEntry, ToolResult
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._integrations.xaibo.results import convert_known_error, to_result
from mcp_bridge._protocol.wire.outcomes import TABLE
from mcp_bridge._protocol.wire.tools import to_mcp, to_wire

PICTURE = Image(b"\x89PNG", "image/png")


async def render(answer: Any) -> dict[str, Any]:
    """Return the client's result for a provider's result."""
    registry = ToolRegistry()
    entry = ToolEntry("t", "d", lambda _: to_result(answer))
    registry.register(entry)
    result = await registry.dispatch(ToolCall(id="1", name="t", arguments={}), RunningCall())
    assert isinstance(result, ToolResult)
    return to_mcp(result, to_wire(entry.to_tool_definition()), "2025-11-25")


def list_texts(result: dict[str, Any]) -> list[str]:
    """Return the text blocks of a result."""
    return [block["text"] for block in result["content"]]


async def test_a_text_is_the_output_and_data_becomes_json() -> None:
    assert list_texts(await render(xaibo.ToolResult(success=True, result="so it is"))) == ["so it is"]
    assert list_texts(await render(xaibo.ToolResult(success=True, result=[1, None]))) == ["[1,null]"]


async def test_a_success_without_a_result_is_empty() -> None:
    result = await render(xaibo.ToolResult(success=True))
    assert result["content"] == []
    assert "isError" not in result


async def test_a_provider_that_returns_none_has_failed() -> None:
    result = await render(None)
    assert (result["isError"], list_texts(result)) == (True, ["The provider returned None instead of a ToolResult."])


async def test_a_failure_has_its_error_verbatim_followed_by_its_result() -> None:
    result = await render(xaibo.ToolResult(success=False, error="No 'X' – really", result={"tried": 2}))
    assert result["isError"] is True
    assert list_texts(result) == ["No 'X' – really", '{"tried":2}']
    assert "structuredContent" not in result


@pytest.mark.parametrize("error", [None, ""])
async def test_a_failure_without_a_text_has_a_default_text(error: str | None) -> None:
    assert list_texts(await render(xaibo.ToolResult(success=False, error=error))) == ["Tool failed"]
    assert list_texts(await render(xaibo.ToolResult(success=False, error=error, result="half"))) == [
        "Tool failed",
        "half",
    ]


async def test_the_error_of_a_success_is_in_the_meta() -> None:
    result = await render(xaibo.ToolResult(success=True, result="done", error="slowly"))
    assert (list_texts(result), result["_meta"]) == (["done"], {"mcp-bridge/error": "slowly"})
    assert "isError" not in result


async def test_content_blocks_are_not_changed() -> None:
    result = await render(xaibo.ToolResult(success=True, result=[Text("a"), PICTURE]))
    assert [block["type"] for block in result["content"]] == ["text", "image"]
    assert [block["type"] for block in (await render({"success": True, "result": PICTURE}))["content"]] == ["image"]


@pytest.mark.parametrize(
    "answer",
    [
        {"success": False, "error": "no"},
        SimpleNamespace(success=False, result=None, error={"message": "no"}),
        SimpleNamespace(success=False, result=None, error=ValueError("no")),
    ],
)
def test_a_result_is_recognised_by_its_fields(answer: Any) -> None:
    result = to_result(answer, call_id="7")
    assert (result.success, result.error_text, result.tool_call_id) == (False, "no", "7")


@pytest.mark.parametrize("answer", [0, {"success": True, "temperature": 1}, {"success": 1}])
def test_any_other_value_is_the_output(answer: Any) -> None:
    assert to_result(answer) == ToolResult(success=True, output=answer)


def test_a_mock_with_every_attribute_is_no_result() -> None:
    mock = MagicMock()
    assert to_result(mock).output is mock


def test_an_error_with_a_failing_str_is_named_by_its_class() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert to_result(SimpleNamespace(success=False, result=None, error=Odd())).error == "Odd"


def test_a_tool_result_gets_the_id_of_its_call() -> None:
    ours = ToolResult(success=True, output=1)
    assert to_result(ours, call_id="7") == ToolResult(success=True, output=1, tool_call_id="7")
    tool_result = ToolResult(success=True, tool_call_id="8")
    assert to_result(tool_result, call_id="7") is tool_result


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (xaibo.ToolNotFoundError("the text"), "tool_error"),
        (xaibo.ToolParameterError("the text"), "invalid_arguments"),
        (type("ToolParameterError", (Exception,), {})("the text"), "invalid_arguments"),
        (type("CityError", (xaibo.ToolParameterError,), {})("the text"), "invalid_arguments"),
    ],
)
def test_an_error_of_xaibo_has_a_code_and_its_text(error: Exception, code: str) -> None:
    result = convert_known_error(error)
    assert result == ToolResult(success=False, error="the text", code=code)
    assert code in {row.code for row in TABLE}


@pytest.mark.parametrize(
    ("case", "text"),
    [
        (xaibo.ToolNotFoundError, "The provider did not find this tool."),
        (xaibo.ToolParameterError, "The tool does not accept these parameters."),
        (xaibo.ToolExecutionError, "Tool failed"),
    ],
)
def test_an_error_without_text_has_the_text_of_its_class(case: type[Exception], text: str) -> None:
    result = convert_known_error(case())
    assert result is not None
    assert result.error == text


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ToolError("ours")])
def test_any_other_error_is_raised_to_the_pipeline(error: BaseException) -> None:
    assert convert_known_error(error) is None
