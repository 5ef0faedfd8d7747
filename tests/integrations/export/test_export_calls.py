"""Calls of models come back into the registry, and their results go out in the model's format."""

from __future__ import annotations

import json
from datetime import date
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_bridge import (
    Audio,
    CallContext,
    EmbeddedResource,
    Image,
    ResourceLink,
    Text,
    ToolEntry,
    ToolRegistry,
    ToolResult,
)
from mcp_bridge.export import Export
from mcp_bridge.middleware import Pipeline, Stage
from tests.kits.export.export_kit import (
    ALL_FORMATS,
    PNG,
    WITH_IDS,
    build_response,
    double,
    get_call_id,
    get_text,
    list_results,
    make_registry,
)

JSON_TEXT = ("openai", "openai-responses")
PATHS_TO_CALLS: dict[str, tuple[str | int, ...]] = {
    "openai": ("choices", 0, "message", "tool_calls", 0),
    "openai-responses": ("output", 1),
    "anthropic": ("content", 1),
    "gemini": ("candidates", 0, "content", "parts", 1),
    "bedrock": ("output", "message", "content", 1),
    "ollama": ("message", "tool_calls", 0),
}
"""The keys from a response to its first call."""


async def run_calls(form: str, *calls: tuple[str, Any], strict: bool = False) -> list[str]:
    """Run calls of a model with this format, and return the texts of their results."""
    export = Export(make_registry(), form, strict=strict)
    return [get_text(form, item) for item in list_results(form, await export.run(build_response(form, *calls)))]


@pytest.mark.parametrize("form", ALL_FORMATS)
async def test_results_have_the_order_and_the_ids_of_the_calls(form: str) -> None:
    export = Export(make_registry(), form)
    name = next(exported_name for exported_name, name in export.names.items() if name == "sums.double")
    calls = [("weather", {"city": "Rom"}), (name, {"input": 4}), ("weather", {"city": "Ulm", "days": 2})]
    result = list_results(form, await export.run(build_response(form, *calls)))
    assert [get_text(form, item) for item in result] == [
        '{"city":"Rom","unit":"c","days":null}',
        "8",
        '{"city":"Ulm","unit":"c","days":2}',
    ]
    ids = ["id-0", "id-1", "id-2"] if form in WITH_IDS else ["weather", name, "weather"]
    assert [get_call_id(form, item) for item in result] == ids


@pytest.mark.parametrize("form", ALL_FORMATS)
async def test_a_response_without_calls_has_no_messages(form: str) -> None:
    assert await Export(make_registry(), form).run(build_response(form)) == []
    for nothing in ({}, None, [], {"choices": [], "candidates": [], "content": "Hello."}, "Hello."):
        assert await Export(make_registry(), form).run(nothing) == []


@pytest.mark.parametrize("form", ALL_FORMATS)
async def test_text_is_verbatim(form: str) -> None:
    assert await run_calls(form, ("words", {})) == [' verbatim "text"\n']


@pytest.mark.parametrize("form", ALL_FORMATS)
async def test_the_error_of_a_tool_is_verbatim(form: str) -> None:
    export = Export(make_registry(), form)
    (result,) = list_results(form, await export.run(build_response(form, ("nowhere", {"city": "X"}))))
    assert get_text(form, result) == "no such city: X\n  try again"
    if form == "anthropic":
        assert result["is_error"] is True
    elif form == "bedrock":
        assert result["status"] == "error"
    elif form == "gemini":
        assert result["response"].keys() == {"error"}


async def test_an_unexpected_error_is_not_in_the_result() -> None:
    (error_text,) = await run_calls("anthropic", ("breaks", {}))
    assert "internal error" in error_text
    assert "12345" not in error_text


async def test_invalid_arguments_are_reported_with_their_path() -> None:
    (error_text,) = await run_calls("anthropic", ("weather", {"city": 5}))
    assert "$.city: expected type string, got integer" in error_text


async def test_a_call_of_an_unknown_tool_does_not_affect_others() -> None:
    error_text, text = await run_calls("anthropic", ("wether", {}), ("words", {}))
    assert "Unknown tool: wether. Did you mean 'weather'" in error_text
    assert "verbatim" in text


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('{"city": "Rom"', "not JSON"),
        ('{"city": NaN}', "NaN is not a JSON value"),
        ("[1]", "expected an object, got array"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
async def test_a_call_with_invalid_json_does_not_affect_others(arguments: str, problem: str) -> None:
    error_text, text = await run_calls("openai", ("weather", arguments), ("words", ""))
    assert "Input validation failed for tool 'weather'" in error_text
    assert problem in error_text
    assert "verbatim" in text


async def test_arguments_of_the_responses_api_are_json() -> None:
    error_text, text = await run_calls("openai-responses", ("weather", "[1]"), ("words", ""))
    assert "expected an object, got array" in error_text
    assert "verbatim" in text


@pytest.mark.parametrize("arguments", ["", "null", "{}"])
async def test_missing_arguments_are_an_empty_object(arguments: str) -> None:
    assert await run_calls("openai", ("words", arguments)) == [' verbatim "text"\n']


@pytest.mark.parametrize("arguments", [{}, {"input": 1, "more": 2}])
async def test_the_argument_input_is_required(arguments: Any) -> None:
    export = Export([double], "gemini")
    (name,) = export.names
    (result,) = list_results("gemini", await export.run(build_response("gemini", (name, arguments))))
    assert "$." in get_text("gemini", result)


async def test_a_tool_that_was_not_exported_cannot_be_called() -> None:
    export = Export(make_registry(), "anthropic", only=["words"])
    (result,) = list_results("anthropic", await export.run(build_response("anthropic", ("weather", {"city": "Rom"}))))
    assert result["is_error"] is True
    assert "Unknown tool: weather." in result["content"]


async def test_a_call_of_a_tool_that_was_removed_is_an_error() -> None:
    tools = make_registry()
    export = Export(tools, "anthropic")
    tools.unregister("words")
    (result,) = list_results("anthropic", await export.run(build_response("anthropic", ("words", {}))))
    assert result == {"type": "tool_result", "tool_use_id": "id-0", "is_error": True, "content": "Unknown tool: words."}


@pytest.mark.parametrize("form", ALL_FORMATS)
def test_calls_are_found_in_any_part_of_a_response(form: str) -> None:
    export = Export(make_registry(), form)
    response: Any = build_response(form, ("words", {}))
    parts = [response]
    for step in PATHS_TO_CALLS[form]:
        response = response[step]
        # A bare list of choices is no part of a response.
        if step not in ("choices", "candidates"):
            parts.append(response)
    assert [[call.name for call in export.calls(item)] for item in parts] == [["words"]] * len(parts)


@pytest.mark.parametrize("form", ALL_FORMATS)
def test_calls_are_found_in_objects_with_attributes(form: str) -> None:
    answer = json.loads(
        json.dumps(build_response(form, ("weather", "{}"))), object_hook=lambda value: SimpleNamespace(**value)
    )
    assert [call.name for call in Export(make_registry(), form).calls(answer)] == ["weather"]


def test_a_result_for_gemini_has_the_id_of_its_call_if_there_is_one() -> None:
    export = Export(make_registry(), "gemini")
    with_id, without = export.calls(
        [{"functionCall": {"id": "7", "name": "words", "args": {}}}, {"functionCall": {"name": "words"}}]
    )
    success = ToolResult(success=True, output="x")
    assert export.result(with_id, success)["functionResponse"]["id"] == "7"
    assert "id" not in export.result(without, success)["functionResponse"]
    assert without.id


async def test_a_call_of_a_custom_tool_of_openai_gets_an_error() -> None:
    call = {"id": "c", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    (value,) = await Export(make_registry(), "openai").run({"tool_calls": [call]})
    assert value["tool_call_id"] == "c"
    assert "Unknown tool: shell." in value["content"]


def format_result(form: str, *content: Any, **fields: Any) -> Any:
    """Return a result with this content in the format."""
    export = Export(make_registry(), form)
    (call,) = export.calls(build_response(form, ("words", {})))
    value = export.result(call, ToolResult(**{"success": True, "content": content, **fields}))
    if form in ("gemini", "bedrock"):
        # The only key is the kind of the block.
        (value,) = value.values()
    return value


DATA = "iVBORw0KGgowMTIz"


def test_images_are_blocks_if_the_format_supports_them() -> None:
    content = (Text("a dot"), Image(PNG, "image/png"))
    assert format_result("anthropic", *content)["content"] == [
        {"type": "text", "text": "a dot"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
    ]
    assert format_result("openai-responses", *content)["output"] == [
        {"type": "input_text", "text": "a dot"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{DATA}", "detail": "auto"},
    ]
    assert format_result("bedrock", *content)["content"] == [
        {"text": "a dot"},
        {"image": {"format": "png", "source": {"bytes": PNG}}},
    ]


@pytest.mark.parametrize("form", ["openai", "gemini", "ollama"])
def test_images_become_a_text_in_other_formats(form: str) -> None:
    text = get_text(form, format_result(form, Text("a dot"), Image(PNG, "image/png")))
    assert text == "a dot\n[image, image/png, 12 bytes, which cannot be shown here]"


@pytest.mark.parametrize("form", ALL_FORMATS)
def test_blocks_that_no_format_supports_become_a_text(form: str) -> None:
    content = [
        Image(b"<svg/>", "image/svg+xml"),
        Audio(b"1234", "audio/wav"),
        EmbeddedResource("memo:1", "the memo", "text/plain"),
        EmbeddedResource("memo:2", b"12345", "application/zip"),
        ResourceLink("file:///a.txt", "a", description="All of it"),
    ]
    texts = [
        "[image, image/svg+xml, 6 bytes, which cannot be shown here]",
        "[audio, audio/wav, 4 bytes, which cannot be shown here]",
        "the memo",
        "[resource memo:2, application/zip, 5 bytes, which cannot be shown here]",
        "a: file:///a.txt (All of it)",
    ]
    assert [get_text(form, format_result(form, item)) for item in content] == texts


def test_pdfs_are_blocks_if_the_format_supports_them() -> None:
    paper = EmbeddedResource("memo:1", b"%PDF-1.7", "application/pdf")
    assert format_result("anthropic", paper)["content"][0]["source"]["media_type"] == "application/pdf"
    assert format_result("openai-responses", paper)["output"][0]["file_data"].startswith(
        "data:application/pdf;base64,JVBE"
    )
    assert format_result("bedrock", paper)["content"][0]["document"]["source"]["bytes"] == b"%PDF-1.7"
    assert "memo:1" in get_text("openai", format_result("openai", paper))


def test_an_empty_result_in_each_format() -> None:
    assert "content" not in format_result("anthropic", content=None)
    assert "content" not in format_result("anthropic", Text(" "))
    assert format_result("bedrock", content=None)["content"] == [{"text": "The tool returned nothing."}]
    assert format_result("openai", content=None)["content"] == ""
    assert format_result("gemini", content=None)["response"] == {"output": ""}


def test_a_result_is_converted_to_json() -> None:
    assert format_result("openai", content=None, output={"days": {1}, "at": date(2026, 7, 28)})["content"] == (
        '{"days":[1],"at":"2026-07-28"}'
    )


def test_a_failure_has_the_content_of_the_tool() -> None:
    value = format_result("anthropic", Text("half of it"), success=False, error="then it broke")
    assert value["is_error"] is True
    assert [block["text"] for block in value["content"]] == ["then it broke", "half of it"]
    assert format_result("gemini", Text("half"), success=False, error="broke")["response"] == {"error": "broke\nhalf"}


class CallRecorder:
    """A middleware with a record of the calls and their principals."""

    stage = Stage.DECIDE

    def __init__(self) -> None:
        self.calls: list[Any] = []

    async def __call__(self, call: Any, ctx: CallContext, call_next: Any) -> Any:
        self.calls.append((call.name, call.arguments, ctx.principal))
        return await call_next(call, ctx)


async def test_calls_run_in_the_pipeline_with_the_given_context() -> None:
    recorder = CallRecorder()
    tools = ToolRegistry(pipeline=Pipeline([recorder]))
    tools.register(ToolEntry("a.b", "", lambda data: data, {"type": "integer"}))
    export = Export(tools, "anthropic")
    (name,) = export.names
    answer = build_response("anthropic", (name, {"input": 3}))
    await export.run(answer, lambda call: CallContext(principal=f"model {call.exported}"))
    await export.run(answer)
    assert recorder.calls == [("a.b", 3, f"model {name}"), ("a.b", 3, None)]


async def test_calls_of_a_model_may_be_nested_in_the_call_of_a_tool() -> None:
    tools = make_registry()

    async def agent(data: Any, ctx: CallContext) -> Any:
        return await Export(tools, "openai", only=["words"]).run(
            build_response("openai", ("words", {}), ("words", {})), ctx
        )

    tools.register(ToolEntry("agent", "", agent, {"type": "object"}))
    export = Export(tools, "gemini")
    (result,) = list_results("gemini", await export.run(build_response("gemini", ("agent", {}))))
    assert [item["content"] for item in json.loads(result["response"]["output"])] == [' verbatim "text"\n'] * 2


@pytest.mark.parametrize("form", JSON_TEXT)
async def test_null_for_an_optional_argument_is_a_missing_argument(form: str) -> None:
    texts = await run_calls(form, ("weather", {"city": "Rom", "unit": None, "days": None}), strict=True)
    assert texts == ['{"city":"Rom","unit":"c","days":null}']


@pytest.mark.parametrize("form", JSON_TEXT)
async def test_null_is_invalid_if_the_export_is_not_strict(form: str) -> None:
    (error_text,) = await run_calls(form, ("weather", {"city": "Rom", "unit": None}))
    assert "$.unit: expected type string, got null" in error_text


@pytest.mark.parametrize("schema", [{"type": "array", "items": {"type": "integer"}}, {"anyOf": [{"type": "object"}]}])
async def test_paths_in_errors_begin_with_the_argument_that_wraps_the_input(schema: dict[str, Any]) -> None:
    export = Export([ToolEntry("a", "A.", lambda data: data, schema)], "anthropic")
    (call,) = export.calls({"content": [{"type": "tool_use", "id": "1", "name": "a", "input": {"input": ["b"]}}]})
    error_text = (await export.answer(call)).error_text
    assert "\n- $.input" in error_text
