"""Each format against the types of the vendor's SDK, in both directions."""

from __future__ import annotations

import functools
from typing import Any

import anthropic.types
import botocore.session
import ollama
import openai
import openai.types.chat
import openai.types.responses
import pytest
from botocore.validate import ParamValidator
from google.genai import types as gemini
from openai.types.responses.response_input_param import FunctionCallOutput
from pydantic import BaseModel, ConfigDict, TypeAdapter, with_config

from mcp_bridge import EmbeddedResource, Image, Text, ToolEntry, ToolResult
from mcp_bridge.export import Export
from tests.kits.export.export_kit import TREE, build_response, get_text, list_functions, list_results, make_registry

CALLS = (("weather", {"city": "Rom"}), ("nowhere", {"city": "X"}), ("painting", {}), ("silent", {}), ("words", {}))


@functools.cache
def load_converse_operation() -> Any:
    """Return the Converse operation as boto3 knows it."""
    return botocore.session.get_session().get_service_model("bedrock-runtime").operation_model("Converse")


def close_objects(model: Any) -> TypeAdapter[Any]:
    """Return a vendor's TypedDict without additional fields."""
    return TypeAdapter(with_config(ConfigDict(extra="forbid"))(model))


@pytest.fixture(params=[False, True], ids=["loose", "strict"])
def strict(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_chat_completions_accept_the_tools(strict: bool) -> None:
    tools = Export(make_registry(), "openai", strict=strict).tools
    adapter = TypeAdapter(list[openai.types.chat.ChatCompletionFunctionToolParam])
    assert adapter.validate_python(tools) == tools


def test_the_responses_api_accepts_the_tools(strict: bool) -> None:
    for tool in Export(make_registry(), "openai-responses", strict=strict).tools:
        assert close_objects(openai.types.responses.FunctionToolParam).validate_python(tool) == tool
        assert openai.types.responses.FunctionTool.model_validate(tool, strict=True).strict is tool["strict"]


def test_anthropic_accepts_the_tools() -> None:
    for tool in Export(make_registry(), "anthropic").tools:
        assert TypeAdapter(anthropic.types.ToolParam).validate_python(tool) == tool


def test_gemini_accepts_the_tools() -> None:
    export = Export(make_registry(), "gemini")
    (tool,) = gemini.GenerateContentConfig(tools=export.tools).tools or []
    assert isinstance(tool, gemini.Tool)
    declarations = {item.name: item for item in tool.function_declarations or []}
    assert set(declarations) == set(export.names)
    assert declarations["tree"].parameters_json_schema == TREE
    assert declarations["tree"].description is None


def test_bedrock_accepts_the_tools() -> None:
    arguments = {"modelId": "m", "toolConfig": {"tools": Export(make_registry(), "bedrock").tools}}
    report = ParamValidator().validate(arguments, load_converse_operation().input_shape)
    assert report.generate_report() == ""


def test_ollama_accepts_the_tools() -> None:
    export = Export(make_registry(), "ollama")
    value = {item.function.name: item.function for item in map(ollama.Tool.model_validate, export.tools)}
    assert set(value) == set(export.names)
    assert value["tree"].parameters.required == ["root"]
    assert value["tree"].parameters.defs == TREE["$defs"]
    assert value["tree"].parameters.properties["unit"].enum == ["c", "f"]
    assert value["tree"].parameters.properties["tags"].items == {"type": "string"}


def parse_response(form: str) -> Any:
    """Return a vendor's response as its SDK returns it."""
    arguments = build_response(form, *CALLS)
    match form:
        case "openai":
            return openai.types.chat.ChatCompletion.model_validate(arguments)
        case "openai-responses":
            more = {"object": "response", "created_at": 1, "model": "m", "parallel_tool_calls": True}
            return openai.types.responses.Response.model_validate(
                {**arguments, **more, "tool_choice": "auto", "tools": []}
            )
        case "anthropic":
            usage = {"input_tokens": 1, "output_tokens": 1}
            more = {"type": "message", "model": "m", "stop_reason": "tool_use", "stop_sequence": None, "usage": usage}
            return anthropic.types.Message.model_validate({**arguments, **more})
        case "gemini":
            return gemini.GenerateContentResponse.model_validate(arguments)
        case "ollama":
            return ollama.ChatResponse.model_validate(arguments)
    # boto3 returns plain data.
    return arguments


async def run_calls(form: str) -> list[dict[str, Any]]:
    """Return the messages for the calls in a response of the vendor's SDK."""
    export = Export(make_registry(), form)
    assert [call.name for call in export.calls(parse_response(form))] == [name for name, _ in CALLS]
    result = await export.run(parse_response(form))
    assert len(list_results(form, result)) == len(CALLS)
    return result


async def test_chat_completions_accept_the_results() -> None:
    value = await run_calls("openai")
    assert TypeAdapter(list[openai.types.chat.ChatCompletionToolMessageParam]).validate_python(value) == value


async def test_the_responses_api_accepts_the_results() -> None:
    for item in await run_calls("openai-responses"):
        output = close_objects(FunctionCallOutput).validate_python(item)
        assert output == item
        assert {block["type"] for block in output["output"] if isinstance(block, dict)} <= {
            "input_text",
            "input_image",
        }


ANTHROPIC = {
    "text": anthropic.types.TextBlockParam,
    "image": anthropic.types.ImageBlockParam,
    "document": anthropic.types.DocumentBlockParam,
}


def check_block(block: dict[str, Any]) -> list[str]:
    """Return the kinds of content in a tool_result, and check them by Anthropic's types.

    Its parts are checked separately, because pydantic reads an `Iterable` only during the iteration.
    """
    parts = block.get("content")
    plain = {**block, "content": "in parts"} if isinstance(parts, list) else block
    assert close_objects(anthropic.types.ToolResultBlockParam).validate_python(plain) == plain
    for block in parts if isinstance(parts, list) else ():
        assert close_objects(ANTHROPIC[block["type"]]).validate_python(block) == block
    return [block["type"] for block in parts] if isinstance(parts, list) else []


async def test_anthropic_accepts_the_results() -> None:
    (message,) = await run_calls("anthropic")
    assert message.keys() == {"role", "content"}
    assert message["role"] == "user"
    assert [check_block(block) for block in message["content"]] == [[], [], ["text", "image"], [], []]
    assert [block.get("is_error", False) for block in message["content"]] == [False, True, False, False, False]


async def test_gemini_accepts_the_results() -> None:
    (content,) = await run_calls("gemini")
    output = gemini.Content.model_validate(content)
    assert [block.function_response.name for block in output.parts] == [name for name, _ in CALLS]
    assert output.parts[0].function_response.response == {"output": {"city": "Rom", "unit": "c", "days": None}}
    assert output.parts[1].function_response.response == {"error": "no such city: X\n  try again"}


async def test_bedrock_accepts_the_results() -> None:
    value = await run_calls("bedrock")
    report = ParamValidator().validate({"modelId": "m", "messages": value}, load_converse_operation().input_shape)
    assert report.generate_report() == ""


async def test_ollama_accepts_the_results() -> None:
    value = [ollama.Message.model_validate(message) for message in await run_calls("ollama")]
    assert [message.tool_name for message in value] == [name for name, _ in CALLS]
    assert value[-1].content == ' verbatim "text"\n'


def export_result(form: str) -> dict[str, Any]:
    """Export one result with text, a picture and a PDF."""
    export = Export(make_registry(), form)
    call = export.calls(parse_response(form))[0]
    paper = EmbeddedResource("memo:1", b"%PDF-1.7", "application/pdf")
    return export.result(call, ToolResult(success=True, content=[Text("a"), Image(b"GIF89a", "image/gif"), paper]))


def test_vendors_accept_images_and_pdfs() -> None:
    close_objects(FunctionCallOutput).validate_python(export_result("openai-responses"))
    assert check_block(export_result("anthropic")) == ["text", "image", "document"]
    message = {"role": "user", "content": [export_result("bedrock")]}
    report = ParamValidator().validate({"modelId": "m", "messages": [message]}, load_converse_operation().input_shape)
    assert report.generate_report() == ""


@pytest.mark.parametrize("form", ["openai", "openai-responses", "anthropic", "gemini", "ollama"])
async def test_results_have_the_output_of_the_tools(form: str) -> None:
    first, second, *_ = list_results(form, await run_calls(form))
    assert get_text(form, first) == '{"city":"Rom","unit":"c","days":null}'
    assert get_text(form, second) == "no such city: X\n  try again"


def test_the_strict_form_of_a_model_is_that_of_the_sdk() -> None:
    """The openai package also makes strict schemas of pydantic models. Common features have the same schemas."""

    class Spot(BaseModel):
        x: float
        y: float | None

    class Trip(BaseModel):
        """Where to."""

        spots: list[Spot]
        name: str | None
        after: Trip | None

    entry = ToolEntry("trip", "", lambda data: data, Trip.model_json_schema())
    export = Export([entry], "openai", strict=True)
    theirs = openai.pydantic_function_tool(Trip)["function"]["parameters"]
    ours = list_functions("openai", export.tools)["trip"][1]
    assert export.problems == ()
    assert ours["$defs"]["Spot"] == theirs["$defs"]["Spot"]
    assert ours["$defs"]["Trip"] == theirs["$defs"]["Trip"]
