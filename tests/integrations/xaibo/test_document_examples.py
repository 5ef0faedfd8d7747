"""Every example of the Tools Protocol's document runs with this package, and only its import lines are changed."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._integrations.xaibo.results import convert_known_error, to_result
from mcp_bridge._integrations.xaibo.schemas import build_schema
from mcp_bridge.xaibo import (
    LLMFunctionCall,
    LLMMessage,
    LLMOptions,
    LLMProtocol,
    LLMResponse,
    LLMRole,
    MockToolProvider,
    Tool,
    ToolProviderProtocol,
)
from tests.kits.xaibo.vocabulary_document import (
    DOCUMENT,
    IMPORTS,
    get_example,
    list_examples,
    run_example,
    write_examples,
)

WEATHER = "class WeatherToolProvider"
MOCK = "class MockToolProvider"
ERRORS = "class ToolError("


@pytest.fixture
async def weather() -> Any:
    """Return the document's provider."""
    return (await run_example(get_example(WEATHER)))["WeatherToolProvider"]({"api_key": "k"})


def test_all_examples_of_the_document_are_tested() -> None:
    assert len(list_examples()) == 11
    document = DOCUMENT.read_text("utf-8")
    for text in list_examples():
        assert text in document
        document = document.replace(text, "", 1)
    assert not [word for word in ("async def", "class ", "await ", "assert ", " = ") if word in document]


def test_only_import_lines_are_changed() -> None:
    for text in list_examples():
        pairs = zip(text.splitlines(), write_examples(text).splitlines(), strict=True)
        assert {before.split(" import ")[0] for before, after in pairs if before != after} <= {
            "from xaibo.core.protocols.tools",
            "from xaibo.core.models.tools",
        }
    assert "from mcp_bridge.xaibo import ToolProviderProtocol\n" in write_examples(get_example(WEATHER))


async def test_the_protocol_of_the_document_is_that_of_the_package() -> None:
    theirs = (await run_example(get_example("class ToolProviderProtocol")))["ToolProviderProtocol"]
    ours = MockToolProvider([], {})
    assert isinstance(ours, theirs)
    assert isinstance(ours, ToolProviderProtocol)
    assert not isinstance(object(), theirs)


async def test_tools_are_listed_with_their_parameters(weather: Any, capsys: pytest.CaptureFixture[str]) -> None:
    await run_example(get_example("    for param_name, param"), tool_provider=weather)
    assert capsys.readouterr().out.splitlines() == [
        "get_current_weather: Get current weather conditions for a city",
        "  city (string): City name",
        "  units (string): Temperature units",
        "get_weather_forecast: Get weather forecast for multiple days",
        "  city (string): City name",
        "  days (integer): Number of days to forecast",
    ]


async def test_results_and_errors_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    text = get_example("result = await tool_provider.execute_tool")
    await run_example(text, tool_provider=MockToolProvider([], {"get_weather": 21}))
    await run_example(text, tool_provider=MockToolProvider([], {"get_weather": ValueError("rain")}))
    assert capsys.readouterr().out.splitlines() == ["Weather data: 21", "Error: rain"]


async def test_the_tool_of_the_document_has_this_schema() -> None:
    tool = (await run_example(get_example("tool = Tool(")))["tool"]
    assert build_schema(tool.parameters) == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Name of the city"},
            "units": {
                "type": "string",
                "description": "Temperature units",
                "enum": ["celsius", "fahrenheit", "kelvin"],
                "default": "celsius",
            },
        },
        "required": ["city"],
    }


async def test_the_three_parameters_of_the_document_have_this_schema() -> None:
    names = await run_example(get_example("param = ToolParameter("))
    schema = build_schema({name: names[name] for name in ("param", "enum_param", "number_param")})
    assert schema == {
        "type": "object",
        "properties": {
            "param": {"type": "string", "description": "The city name to get weather for"},
            "enum_param": {
                "type": "string",
                "description": "Temperature units",
                "enum": ["celsius", "fahrenheit", "kelvin"],
                "default": "celsius",
            },
            "number_param": {"type": "number", "description": "Maximum temperature threshold", "default": 30.0},
        },
        "required": ["param"],
    }


async def test_the_results_of_the_document_reach_the_model() -> None:
    first, second = [text for text in list_examples() if text.startswith("result = ToolResult(")]
    success = to_result((await run_example(first))["result"], call_id="1")
    assert success == ToolResult(
        success=True,
        output={"temperature": 22.5, "humidity": 65, "conditions": "partly cloudy"},
        tool_call_id="1",
    )
    failure = to_result((await run_example(second))["result"])
    assert (failure.is_error, failure.error_text) == (True, "City 'InvalidCity' not found")


async def test_the_weather_provider_applies_its_defaults(weather: Any) -> None:
    response = await weather.execute_tool("get_current_weather", {"city": "Paris", "units": "kelvin"})
    result = response.result
    assert (result["city"], result["units"], result["temperature"]) == ("Paris", "kelvin", 72.5)
    assert len((await weather.execute_tool("get_weather_forecast", {"city": "Oslo"})).result["forecast"]) == 5
    assert (await weather.execute_tool("get_current_weather", {})).error == "City parameter is required"
    assert (await weather.execute_tool("nope", {})).error == "Unknown tool: nope"


async def test_the_weather_tools_accept_arguments_of_their_schemas(weather: Any) -> None:
    _, forecast = [build_schema(tool.parameters) for tool in await weather.list_tools()]
    jsonschema.validate({"city": "Oslo", "days": 3, "more": True}, forecast)
    with pytest.raises(jsonschema.ValidationError, match="'city' is a required property"):
        jsonschema.validate({"days": 3}, forecast)


async def test_the_errors_of_the_document_are_converted_by_their_names() -> None:
    names = await run_example(get_example(ERRORS))
    for name in ("ToolError", "ToolNotFoundError", "ToolExecutionError", "ToolParameterError"):
        assert names[name].__bases__[0].__name__ == IMPORTS[name].__bases__[0].__name__
        result = convert_known_error(names[name]("the reason"))
        ours = convert_known_error(IMPORTS[name]("the reason"))
        assert result == ours
        assert result is not None
        assert result.error == "the reason"


async def test_the_error_handling_of_the_document_returns_results(weather: Any) -> None:
    execute = (await run_example(get_example(ERRORS)))["execute_tool"]

    async def work(name: str, parameters: dict[str, Any]) -> Any:
        if parameters["city"] == "Atlantis":
            raise KeyError("Atlantis")
        return {"name": name, **parameters}

    provider = SimpleNamespace(
        list_tools=weather.list_tools,
        _validate_parameters=lambda tool, arguments: None if "city" in arguments else f"{tool.name}: city is missing",
        _execute_tool_impl=work,
    )
    name = "get_current_weather"
    assert (await execute(provider, name, {"city": "Oslo"})).result == {"name": name, "city": "Oslo"}
    assert (await execute(provider, name, {})).error == "get_current_weather: city is missing"
    assert (await execute(provider, name, {"city": "Atlantis"})).error == "Unexpected error: 'Atlantis'"
    assert "not found. Available tools: ['get_current_weather'" in (await execute(provider, "nope", {})).error


async def test_the_mock_of_the_document_behaves_like_that_of_the_package() -> None:
    names = await run_example(get_example(MOCK))
    assert names["mock_provider"].call_history == [("test_tool", {})]
    results = {"a": {"b": 1}, "broken": ValueError("no")}
    theirs, ours = names["MockToolProvider"]([], results), MockToolProvider([], results)
    for name, arguments in (("a", {"x": [1]}), ("broken", {}), ("none", {"y": None})):
        assert await ours.execute_tool(name, arguments) == await theirs.execute_tool(name, arguments)
    assert ours.call_history == theirs.call_history


async def test_the_document_runs_with_the_mock_of_the_package() -> None:
    text = get_example(MOCK)
    usage = text[text.index("# Usage in tests") :]
    names = await run_example(usage)
    assert type(names["mock_provider"]) is MockToolProvider


class ScriptedLLM:
    """Requests one call, and reads its result."""

    def __init__(self, call: LLMFunctionCall) -> None:
        self.call = call
        self.seen: list[tuple[list[LLMMessage], LLMOptions | None]] = []

    async def generate(self, messages: list[LLMMessage], options: LLMOptions | None = None) -> LLMResponse:
        """Return the call, or a text after its result."""
        self.seen.append((list(messages), options))
        answered = any(message.role is LLMRole.FUNCTION for message in messages)
        return LLMResponse(content="", tool_calls=None if answered else [self.call])

    def generate_stream(self, messages: list[LLMMessage], options: LLMOptions | None = None) -> Any:
        """Not asked for here."""
        raise NotImplementedError


async def test_the_call_loop_of_the_document_runs_with_a_scripted_model(weather: Any) -> None:
    llm = ScriptedLLM(LLMFunctionCall(id="c1", name="get_weather_forecast", arguments={"city": "Oslo", "days": 1}))
    messages = [LLMMessage.user("Will it rain in Oslo?")]
    names = await run_example(
        get_example("# Get tools from provider"), tool_provider=weather, llm=llm, messages=messages
    )
    assert isinstance(llm, LLMProtocol)
    (_, options) = llm.seen[0]
    assert options is not None
    assert options.functions is not None
    assert [tool.name for tool in options.functions] == ["get_current_weather", "get_weather_forecast"]
    assert options.temperature == 0.7
    (error_text,) = messages[-1].tool_results or []
    assert (error_text.id, error_text.name, error_text.content) == (
        "c1",
        "get_weather_forecast",
        str(names["result"].result),
    )
    assert not (await llm.generate(messages, options)).tool_calls


async def test_the_examples_need_no_xaibo(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ["xaibo", *[item for item in sys.modules if item.startswith("xaibo.")]]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError):
        __import__("xaibo")
    assert isinstance((await run_example(get_example("tool = Tool(")))["tool"], Tool)
    await run_example(get_example(WEATHER))
