"""The tools of a provider reach clients, and its results and errors are unchanged."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import anyio
import pytest

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._contracts.errors import ConfigError, SourceError
from mcp_bridge._integrations.xaibo.source import XaiboSource
from mcp_bridge._settings import load
from mcp_bridge.testing import connect
from mcp_bridge.xaibo import (
    MockToolProvider,
    Tool,
    ToolExecutionError,
    ToolNotFoundError,
    ToolParameter,
    ToolParameterError,
    ToolResult,
)
from tests.kits.xaibo.vocabulary_document import get_example
from tests.kits.xaibo.vocabulary_document import write_examples as as_run
from tests.kits.xaibo.xaibo_kit import SourceBridge, call_text, list_schemas, write_files

pytestmark = pytest.mark.usefixtures("forgotten")

SMALL = """
from mcp_bridge.xaibo import Tool, ToolResult


class Small:
    def __init__(self, config):
        self.word = config.get("word", "hello")

    def list_tools(self):
        return [Tool(name="greet", description="Greets.")]

    def execute_tool(self, tool_name, parameters):
        return ToolResult(success=True, result=self.word)


small = Small({"word": "made"})


def make(config):
    return Small({"word": "by " + config["who"]})


def plain():
    return Small({"word": "plain"})


class Holder:
    inner = small
"""


class Provider:
    """A provider with a synchronous tool, `do`, that calls a function."""

    def __init__(self, do: Any = None, parameters: dict[str, Any] | None = None) -> None:
        self.do = do
        self.parameters = parameters or {}
        self.seen: list[Any] = []

    def list_tools(self) -> list[Tool]:
        return [Tool(name="do", description="Does.", parameters=self.parameters)]

    def execute_tool(self, tool_name: str, parameters: dict[str, Any]) -> Any:
        self.seen.append((tool_name, parameters))
        return self.do()


class Later(Provider):
    """A provider with an asynchronous tool."""

    async def list_tools(self) -> list[Tool]:  # type: ignore[override]
        await anyio.lowlevel.checkpoint()
        return super().list_tools()

    async def execute_tool(self, tool_name: str, parameters: dict[str, Any]) -> Any:
        await anyio.lowlevel.checkpoint()
        return super().execute_tool(tool_name, parameters)


BOTH = pytest.mark.parametrize("kind", [Provider, Later])


class TestTheDocumentsProvider:
    """The provider of the protocol's document, with changed import lines."""

    async def test_tools_of_a_provider_are_listed_and_called(self, tmp_path: Path) -> None:
        write_files(tmp_path, seed_weather="from typing import Any, Dict, List\n")
        with (tmp_path / "seed_weather.py").open("a", encoding="utf-8") as file:
            file.write("from mcp_bridge.xaibo import Tool, ToolParameter, ToolResult\n")
            file.write(as_run(get_example("class WeatherToolProvider")))
        write_files(
            tmp_path,
            s_yaml="sources: [{type: xaibo, provider: 'seed_weather:WeatherToolProvider', config: {api_key: none}}]",
        )
        bridge = build_from_settings(load(tmp_path / "s.yaml", {}))
        async with connect(bridge) as client:
            schema = (await list_schemas(client))["get_current_weather"]
            assert schema["required"] == ["city"]
            assert schema["properties"]["units"] == {
                "type": "string",
                "description": "Temperature units",
                "enum": ["celsius", "fahrenheit", "kelvin"],
                "default": "celsius",
            }
            answer = await client.call_tool("get_current_weather", {"city": "Oslo", "units": "kelvin"})
            assert answer.structured_content["temperature"] == 72.5
            assert await call_text(client, "get_current_weather", city="") == "error: City parameter is required"
            wrong = await call_text(client, "get_current_weather", city="Oslo", units="rankine")
            assert wrong.startswith("error: Input validation failed")
        assert bridge.problems == {"WeatherToolProvider": []}


@pytest.mark.parametrize(
    ("provider", "config", "word"),
    [
        ("small:Small", {}, "hello"),
        ("small.Small", {"word": "dotted"}, "dotted"),
        ("small.py:Small", {}, "hello"),
        ("small:Holder.inner", {}, "made"),
        ("small:make", {"who": "me"}, "by me"),
        ("small:plain", {}, "plain"),
    ],
)
async def test_a_provider_is_an_object_a_class_or_a_function(
    provider: str, config: dict[str, Any], word: str, tmp_path: Path
) -> None:
    write_files(tmp_path, small=SMALL)
    async with SourceBridge(tmp_path, provider=provider, config=config).client() as client:
        assert await call_text(client, "greet") == word


NEEDY = """
class Needy:
    def __init__(self, llm, config: dict, *, store, more=1): ...
    def list_tools(self): return []
    def execute_tool(self, name, parameters): ...


class Fails(Needy):
    def __init__(self, config: dict):
        raise ValueError(f"no luck with {config['api_key']}")


class Nothing:
    pass


class NoConfig(Needy):
    def __init__(self): ...


def wrong(config): return Nothing()


made = NoConfig()
"""


@pytest.mark.parametrize(
    ("provider", "config", "message"),
    [
        (
            "needy:Needy",
            {},
            r"provider 'needy:Needy' needs 'llm', 'store' besides config\. Name the YAML of an agent that provides "
            r"it \(agent: path/to/agent\.yaml\), or a function that makes the provider",
        ),
        (
            "needy:Fails",
            {"api_key": "sesame-open"},
            r"needy\.py:\d+: provider 'needy:Fails' cannot be made: ValueError: no luck with \[secret\]",
        ),
        ("needy:Nothing", {}, "'needy:Nothing' does not make a provider but a Nothing: it has no list_tools"),
        ("needy:wrong", {}, "'needy:wrong' does not make a provider but a Nothing"),
        ("needy:NoConfig", {"a": 1}, "'needy:NoConfig' takes no config"),
        ("needy:made", {"a": 1}, "'needy:made' is an object and takes no config"),
        ("needy:NEEDY", {}, "module 'needy' has no 'NEEDY'"),
        ("needy:__name__", {}, "'needy:__name__' is not a provider but a str"),
        ("needy:made", {}, "provider 'needy:made' lists no tools"),
        ("gone:X", {}, "'gone' cannot be imported: ModuleNotFoundError: No module named 'gone'"),
        ("gone.py:X", {}, r"gone\.py: no such file"),
        ("broken:X", {}, r"broken\.py:3: 'broken' cannot be imported: SyntaxError"),
        ("json.py:X", {}, r"json\.py: the name 'json' is taken by .*\. Rename the file"),
        ("theirs:X", {}, r"theirs\.py:1: 'theirs' cannot be imported: .* -m pip install 'xaibo>=0\.3,<0\.4'$"),
        ("needy", {}, r"provider 'needy' names nothing\. Write it as package\.module:Name or path/to/file\.py:Name"),
    ],
)
async def test_an_object_that_is_no_provider_is_rejected_with_advice(
    provider: str, config: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(
        tmp_path, needy=NEEDY, broken="\n\nx = (", json="X = 1", theirs="raise ModuleNotFoundError(name='xaibo')"
    )
    source_bridge = SourceBridge(tmp_path, provider=provider, config=config)
    with pytest.raises(SourceError, match=message):
        async with source_bridge.bridge.run_sources():
            await source_bridge.bridge.wait_until_started()


async def test_an_object_with_a_failing_getattr_is_no_provider(tmp_path: Path) -> None:
    class Unsuitable:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

    with pytest.raises(SourceError, match="provider 'Unsuitable' is not a provider but a Unsuitable"):
        await XaiboSource("mine", provider=Unsuitable()).run(lambda _: None)


async def test_a_mock_with_every_attribute_is_no_provider(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not make a provider but a MagicMock"):
        await XaiboSource("mine", provider=MagicMock()).run(lambda _: None)


@BOTH
async def test_results_and_failures_reach_the_client_unchanged(kind: type[Provider], tmp_path: Path) -> None:
    answers = [
        (ToolResult(success=True, result="text"), "text"),
        (ToolResult(success=True, result=None), ""),
        (ToolResult(success=False, error="City 'X' not found"), "error: City 'X' not found"),
        ({"success": False, "error": "as a mapping"}, "error: as a mapping"),
        (42, "42"),
    ]
    provider = kind()
    async with SourceBridge(tmp_path, provider=provider).client() as client:
        for answer, expected in answers:
            provider.do = lambda answer=answer: answer
            assert await call_text(client, "do") == expected


@BOTH
async def test_only_errors_of_xaibo_have_their_text_in_the_result(kind: type[Provider], tmp_path: Path) -> None:
    provider = kind()
    async with SourceBridge(tmp_path, provider=provider).client() as client:
        for error in (ToolExecutionError("no fuel"), ToolParameterError("too far"), ToolNotFoundError("gone")):
            provider.do = MagicMock(side_effect=error)
            assert await call_text(client, "do") == f"error: {error}"
        provider.do = MagicMock(side_effect=RuntimeError("inner matters"))
        text = await call_text(client, "do")
        assert text.startswith("error: ")
        assert "reference" in text
        assert "inner matters" not in text


@BOTH
async def test_a_coroutine_in_a_result_is_awaited(kind: type[Provider], tmp_path: Path) -> None:
    async def later(error: Exception | None = None) -> str:
        await anyio.lowlevel.checkpoint()
        if error is not None:
            raise error
        return "in the end"

    provider = kind(lambda: ToolResult(success=True, result=later()))
    async with SourceBridge(tmp_path, provider=provider).client() as client:
        assert await call_text(client, "do") == "in the end"
        provider.do = lambda: {"success": True, "result": later()}
        assert await call_text(client, "do") == "in the end"
        provider.do = lambda: ToolResult(success=True, result=later(ToolParameterError("not so")))
        assert await call_text(client, "do") == "error: not so"
        provider.do = later
        if kind is Provider:
            # Here a synchronous method returns a coroutine.
            assert await call_text(client, "do") == "in the end"


async def test_synchronous_methods_run_in_a_thread(tmp_path: Path) -> None:
    class Notes(Provider):
        def list_tools(self) -> list[Tool]:
            self.seen.append(threading.current_thread())
            return super().list_tools()

    provider = Notes(lambda: str(threading.current_thread() is threading.main_thread()))
    async with SourceBridge(tmp_path, provider=provider).client() as client:
        assert await call_text(client, "do") == "False"
    assert threading.main_thread() not in provider.seen


async def test_no_default_is_added_to_the_arguments(tmp_path: Path) -> None:
    parameters = {
        "days": ToolParameter(type="integer", default=5),
        "units": ToolParameter(type="string", required=True, default="celsius"),
    }
    provider = MockToolProvider([Tool(name="t", description="T", parameters=parameters)], {"t": "ok"})
    async with SourceBridge(tmp_path, provider=provider).client() as client:
        assert await call_text(client, "t") == "ok"
        assert await call_text(client, "t", days=2, more=[1]) == "ok"
    assert provider.call_history == [("t", {}), ("t", {"days": 2, "more": [1]})]


async def test_a_provider_gets_the_text_of_its_enum_if_clients_send_a_number(tmp_path: Path) -> None:
    provider = Provider(lambda: "ok", {"size": ToolParameter(type="integer", enum=["1", "2"])})
    async with SourceBridge(tmp_path, provider=provider).client() as client:
        assert (await list_schemas(client))["do"]["properties"]["size"]["enum"] == [1, 2]
        assert await call_text(client, "do", size=2) == "ok"
        assert (await call_text(client, "do", size=3)).startswith("error: Input validation failed")
    assert provider.seen == [("do", {"size": "2"})]


async def test_tools_with_unusual_names_are_called_by_client_safe_names(tmp_path: Path) -> None:
    provider = MockToolProvider([Tool(name="__main__-<lambda>", description="")], {"__main__-<lambda>": "called"})
    async with SourceBridge(tmp_path, provider=provider).client() as client:
        (name,) = await list_schemas(client)
        assert name.startswith("__main__-_lambda__")
        assert await call_text(client, name) == "called"
    assert provider.call_history == [("__main__-<lambda>", {})]


async def test_unreadable_tools_are_problems_and_the_others_are_published(tmp_path: Path) -> None:
    class Odd:
        @property
        def name(self) -> str:
            raise ValueError("why")

    tools: list[Any] = [Odd(), Tool(name="", description=""), {"name": "a", "description": None}, object()]
    source_bridge = SourceBridge(
        tmp_path, provider=MockToolProvider([*tools, Tool(name="a", description="second")], {"a": 1})
    )
    async with source_bridge.client() as client:
        assert list(await list_schemas(client)) == ["a"]
        assert await call_text(client, "a") == "1"
    assert source_bridge.problems == [
        "provider 'MockToolProvider' lists a tool that cannot be read: ValueError: why",
        "provider 'MockToolProvider' lists a tool that cannot be read: ValueError: its name is ''",
        "provider 'MockToolProvider' lists a tool that cannot be read: ValueError: its name is None",
        "provider 'MockToolProvider' lists two tools named 'a'; the first is published",
    ]


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        ("RuntimeError('offline')", "RuntimeError: offline"),
        ("SystemExit('offline')", "SystemExit: offline"),
        ("StopIteration('offline')", "RuntimeError: coroutine raised StopIteration"),
    ],
)
async def test_a_provider_that_cannot_list_does_not_affect_others(raised: str, message: str, tmp_path: Path) -> None:
    write_files(
        tmp_path,
        small=SMALL,
        fails=f"""
        class Fails:
            def list_tools(self): raise {raised}
            def execute_tool(self, name, parameters): ...
        """,
        s_yaml="""
        sources:
          - {type: xaibo, provider: "fails:Fails"}
          - {type: xaibo, provider: "small:Small"}
        """,
    )
    bridge = build_from_settings(load(tmp_path / "s.yaml", {}))
    async with connect(bridge) as client:
        assert list(await list_schemas(client)) == ["greet"]
    assert bridge.problems == {"Fails": [f"provider 'fails:Fails' cannot list its tools: {message}"], "Small": []}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("", r"s\.yaml:1: sources\[0\]: give either provider or agent"),
        ("provider: a, agent: b", r"give either provider or agent"),
        ("agent: b, config: {a: 1}", r"configure an agent in its own YAML"),
        ("provider: a, offer: both", r"offer: both needs an agent"),
        ("provider: a, confg: {}", r"s\.yaml:1: .*config"),
    ],
)
def test_contradictory_options_are_rejected(keys: str, message: str, tmp_path: Path) -> None:
    write_files(tmp_path, s_yaml=f"sources: [{{type: xaibo, {keys}}}]")
    with pytest.raises(ConfigError, match=message):
        build_from_settings(load(tmp_path / "s.yaml", {}))


def test_a_source_has_either_a_provider_or_an_agent() -> None:
    with pytest.raises(ValueError, match="either a provider or an agent"):
        XaiboSource("mine")
