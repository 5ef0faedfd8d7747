"""The providers of an agent in YAML are served, nothing else of it is made, and errors have their place."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._settings import load
from mcp_bridge.testing import connect
from tests.kits.xaibo.xaibo_kit import SourceBridge, call_text, list_schemas, write_files

pytestmark = pytest.mark.usefixtures("forgotten")

PARTS = """
from xaibo.core.protocols.tools import ToolProviderProtocol

from mcp_bridge.xaibo import Tool, ToolResult

made = []


class Made:
    def __init__(self, config: dict = None):
        made.append(type(self).__name__)
        self.config = config or {}


class Counter(Made):
    count = 0


class One(Made, ToolProviderProtocol):
    name = "one"

    async def list_tools(self):
        return [Tool(name=self.config.get("name", self.name), description="T.")]

    async def execute_tool(self, tool_name, parameters):
        return ToolResult(success=True, result=self.config.get("answer", self.name))


class Seedlike(Made):
    def list_tools(self):
        return [Tool(name="seedlike", description="S.")]

    def execute_tool(self, tool_name, parameters):
        return ToolResult(success=True, result=made)


class Database(Made):
    rows = 0

    async def add(self):
        self.rows += 1
        return self.rows


class Stored(One):
    def __init__(self, database: Database, config: dict = None):
        super().__init__(config)
        self.database = database

    async def execute_tool(self, tool_name, parameters):
        return ToolResult(success=True, result=await self.database.add())


class Fails(One):
    def __init__(self, config: dict = None):
        raise ValueError(f"no entrance with {config['password']}")


class Lists(One):
    async def list_tools(self):
        raise RuntimeError(f"no list for {self.config['password']}")
"""
FULL = """
id: full
modules:
  - {id: llm, module: xaibo.primitives.modules.llm.OpenAILLM, config: {model: m}}
  - {id: talk, module: xaibo.primitives.modules.orchestrator.SimpleToolOrchestrator}
  - {id: history, module: xaibo.primitives.modules.conversation.SimpleConversation}
  - {id: gone, module: no_such_package.Anything}
  - {id: one, module: parts.One}
  - {id: seedlike, module: parts.Seedlike}
  - {id: all, module: xaibo.primitives.modules.tools.ToolCollector}
exchange:
  - {module: all, protocol: ToolProviderProtocol, provider: [one, seedlike]}
  - {module: talk, protocol: ToolProviderProtocol, provider: all}
"""


@pytest.mark.usefixtures("without_openai")
async def test_the_providers_of_an_agent_are_served_without_its_model(tmp_path: Path) -> None:
    write_files(tmp_path, parts=PARTS, full_yaml=FULL)
    source_bridge = SourceBridge(tmp_path, agent=tmp_path / "full.yaml")
    async with source_bridge.client() as client:
        assert sorted(await list_schemas(client)) == ["one", "seedlike"]
        assert await call_text(client, "one") == "one"
        result = (await client.call_tool("seedlike", {})).content[0].text
        assert sorted(result.strip("[]").replace('"', "").split(",")) == ["One", "Seedlike"]
    assert source_bridge.problems == []


async def test_providers_share_their_dependencies(tmp_path: Path) -> None:
    text = """
    id: stores
    modules:
      - {id: a, module: parts.Stored, config: {name: a}}
      - {id: b, module: parts.Stored, config: {name: b}}
      - {id: database, module: parts.Database, provides: [Database]}
      - {id: other, module: parts.Counter}
    """
    write_files(tmp_path, parts=PARTS, stores_yaml=text)
    async with SourceBridge(tmp_path, agent=tmp_path / "stores.yaml").client() as client:
        assert [await call_text(client, name) for name in ("a", "b", "a")] == ["1", "2", "3"]
    assert sorted(sys.modules["parts"].made) == ["Database", "Stored", "Stored"]


async def test_a_provider_that_fails_does_not_affect_others_and_its_problem_has_no_secret(tmp_path: Path) -> None:
    text = """
    id: some
    modules:
      - {id: fails, module: parts.Fails, config: {password: sesame-open}}
      - {id: lists, module: parts.Lists, config: {password: sesame-open}}
      - {id: gone, module: no_such_package.Tools, provides: [ToolProviderProtocol]}
      - {id: one, module: parts.One}
      - {id: again, module: parts.One, config: {answer: second}}
    """
    write_files(tmp_path, parts=PARTS, some_yaml=text)
    source_bridge = SourceBridge(tmp_path, agent=tmp_path / "some.yaml")
    async with source_bridge.client() as client:
        assert list(await list_schemas(client)) == ["one"]
        assert await call_text(client, "one") == "one"
    fails, missing, duplicate, lists = source_bridge.problems
    assert fails.startswith(f"{tmp_path / 'parts.py'}:")
    assert fails.endswith(": provider 'fails' cannot be made: ValueError: no entrance with [secret]")
    assert lists == "provider 'lists' cannot list its tools: RuntimeError: no list for [secret]"
    assert duplicate == (
        "'one' and 'again' both have a tool named 'one'. That of 'one' is published. Rename or remove one"
    )
    assert missing.startswith("provider 'gone' cannot be made: ModuleNotFoundError: No module named 'no_such_package'")
    assert "Cannot import gone (no_such_package.Tools). Install the missing packages" in missing


@pytest.mark.usefixtures("without_openai")
async def test_the_missing_package_of_a_provider_is_named(tmp_path: Path) -> None:
    text = """
    id: shots
    modules:
      - {id: llm, module: xaibo.primitives.modules.llm.OpenAILLM, provides: [LLMProtocol]}
      - {id: shots, module: xaibo.primitives.modules.tools.oneshot.OneShotTools, config: {tools: []}}
    """
    write_files(tmp_path, shots_yaml=text)
    with pytest.raises(SourceError, match=r"provider 'shots' cannot be made: .*Cannot import llm \(.*OpenAILLM\)"):
        await SourceBridge(tmp_path, agent=tmp_path / "shots.yaml").source.run(lambda _: None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class Tools(Two):\n    def __init__(self, config: dict) -> None: ...", "Remove that annotation"),
        ("class Tools(Two): ...", "it has no __init__ of its own. Define one that takes config"),
        ("class Tools(Two):\n    def __init__(self, store: 'Two', config=None): ...", "that are strings"),
    ],
)
async def test_a_class_that_xaibo_cannot_make_is_explained(text: str, message: str, tmp_path: Path) -> None:
    two = "class Two:\n    def list_tools(self): return []\n    def execute_tool(self, name, parameters): ...\n\n"
    modules = "[{id: two, module: odd.Tools, provides: [ToolProviderProtocol]}]"
    write_files(tmp_path, odd=two + text, a_yaml=f"{{id: a, modules: {modules}}}")
    with pytest.raises(SourceError, match=rf"provider 'two' cannot be made: .*\. odd\.Tools: .*{message}"):
        await SourceBridge(tmp_path, agent=tmp_path / "a.yaml").source.run(lambda _: None)


async def test_a_collector_in_yaml_loses_only_providers_that_fail(tmp_path: Path) -> None:
    text = """
    id: collects
    modules:
      - {id: first, module: parts.One, config: {answer: first}}
      - {id: second, module: parts.One, config: {answer: second}}
      - {id: fails, module: parts.Fails, config: {password: sesame-open}}
      - {id: all, module: xaibo.primitives.modules.tools.ToolCollector}
    exchange:
      - {module: all, protocol: ToolProviderProtocol, provider: [first, fails, second]}
    """
    write_files(tmp_path, parts=PARTS, collects_yaml=text)
    source_bridge = SourceBridge(tmp_path, agent=tmp_path / "collects.yaml")
    async with source_bridge.client() as client:
        assert await call_text(client, "one") == "second"
    assert len(source_bridge.problems) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id: a\nmodules: [", r"a\.yaml:2: "),
        ("id: a\nmodules: sesame-open", r"a\.yaml: modules: Input should be a valid list$"),
        ("id: a\nmodules: [{id: x, module: parts.One, scope: sesame}]", r"a\.yaml: modules\.0\.scope: Input should be"),
        ("id: a\nmodules: []", r"none of its modules provides tools \(list_tools and execute_tool\)$"),
        (
            "id: a\nmodules: [{id: x, module: prats.One}]",
            r"provides tools \(list_tools and execute_tool\)\. Cannot import x \(prats\.One\)\.",
        ),
        (
            "id: a\nmodules: [{id: x, module: broken.One}]",
            r"broken\.py:2: .*a\.yaml cannot be read as an agent: Syntax",
        ),
    ],
)
async def test_an_error_in_the_yaml_has_its_place(text: str, message: str, tmp_path: Path) -> None:
    write_files(tmp_path, parts=PARTS, broken="\nx = (", a_yaml=text)
    with pytest.raises(SourceError, match=message) as error:
        await SourceBridge(tmp_path, agent=tmp_path / "a.yaml").source.run(lambda _: None)
    assert "sesame" not in str(error.value)


async def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"gone\.yaml: no such file"):
        await SourceBridge(tmp_path, agent=tmp_path / "gone.yaml").source.run(lambda _: None)
    (tmp_path / "bad.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SourceError, match=r"bad\.yaml: cannot be read: UnicodeDecodeError"):
        await SourceBridge(tmp_path, agent=tmp_path / "bad.yaml").source.run(lambda _: None)


async def test_without_xaibo_the_error_has_the_command_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ["xaibo", *[item for item in sys.modules if item.startswith("xaibo.")]]:
        monkeypatch.setitem(sys.modules, name, None)
    write_files(tmp_path, full_yaml=FULL)
    with pytest.raises(SourceError, match=r"full\.yaml: an agent needs xaibo, .*Run: pip install 'xaibo>=0\.3,<0\.4'"):
        await SourceBridge(tmp_path, agent=tmp_path / "full.yaml").source.run(lambda _: None)


async def test_modules_in_the_folder_of_the_yaml_are_importable(tmp_path: Path) -> None:
    inner = tmp_path / "agents"
    inner.mkdir()
    write_files(inner, parts=PARTS, full_yaml=FULL)
    write_files(tmp_path, s_yaml="sources: [{type: xaibo, agent: agents/full.yaml}]")
    bridge = build_from_settings(load(tmp_path / "s.yaml", {}))
    async with connect(bridge) as client:
        assert sorted(await list_schemas(client)) == ["one", "seedlike"]
    assert bridge.problems == {"full": []}


async def test_circular_dependencies_of_modules_are_rejected(tmp_path: Path) -> None:
    text = """
    id: round
    modules:
      - {id: a, module: parts.Stored, config: {name: a}}
      - {id: b, module: parts.Stored, config: {name: b}}
    exchange:
      - {module: a, protocol: Database, provider: b}
      - {module: b, protocol: Database, provider: a}
    """
    write_files(tmp_path, parts=PARTS, round_yaml=text)
    with pytest.raises(SourceError, match=r"round\.yaml: exchange: '(a' needs 'b' needs 'a|b' needs 'a' needs 'b)'\. "):
        await SourceBridge(tmp_path, agent=tmp_path / "round.yaml").source.run(lambda _: None)
