"""Agents are tools that take a message and return a response."""

from __future__ import annotations

import gc
import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_bridge import open_bridge
from mcp_bridge._contracts.content import Audio, Content, EmbeddedResource, Image
from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._integrations.xaibo.source.agents import convert_attachment
from tests.kits.xaibo.xaibo_kit import SourceBridge, call_text, list_schemas, write_files

pytestmark = pytest.mark.usefixtures("forgotten")

PARTS = """
import io

from xaibo import Xaibo
from xaibo.core.protocols import ResponseProtocol, TextMessageHandlerProtocol, ToolProviderProtocol

from mcp_bridge import ToolError
from mcp_bridge.xaibo import Tool, ToolResult

PNG = b"\\x89PNG\\r\\n\\x1a\\n" + bytes(8)


class Echo(TextMessageHandlerProtocol):
    def __init__(self, response: ResponseProtocol, config: dict = None):
        self.response = response
        self.config = config or {}

    async def handle_text(self, text):
        await self.response.respond_text(self.config.get("word", "you said ") + text)


class Fails(Echo):
    async def handle_text(self, text):
        if text == "on purpose":
            raise ToolError("the author's words", code="tired")
        if text == "secret":
            raise OSError(self.config["api_key"] + " refused")
        raise {"key": KeyError("user"), "value": ValueError("no such thing")}[text]


class Draws(Echo):
    async def handle_text(self, text):
        await self.response.respond_text("Here.")
        written = io.BytesIO()
        written.write(PNG)  # and left at its end
        await self.response.respond_image(written)
        await self.response.respond_audio(io.BytesIO(b"RIFF\\0\\0\\0\\0WAVE"))
        await self.response.respond_audio(io.BytesIO(b"\\xff\\xfb\\x90\\0"))
        await self.response.respond_file(io.BytesIO("some notes".encode()))
        await self.response.respond_file(io.BytesIO(b"\\xff\\0 raw"))
        await self.response.respond_image(io.BytesIO(b"no picture"))
        named = io.BytesIO(b"{}")
        named.name = "/somewhere/of no concern/data.json"
        await self.response.respond_file(named)


class Silent(Echo):
    async def handle_text(self, text):
        pass


class Memory(ToolProviderProtocol):
    def __init__(self, config: dict = None):
        self.seen = []

    async def list_tools(self):
        return [Tool(name="recall", description="Recalls.")]

    async def execute_tool(self, tool_name, parameters):
        return ToolResult(success=True, result=list(self.seen))


class Remembers(Echo):
    def __init__(self, response: ResponseProtocol, memory: Memory, config: dict = None):
        super().__init__(response, config)
        self.memory = memory

    async def handle_text(self, text):
        self.memory.seen.append(text)
        await self.response.respond_text(str(len(self.memory.seen)))


class Knows(Echo):
    def __init__(self, response: ResponseProtocol, xaibo: Xaibo, config: dict = None):
        super().__init__(response, config)
        self.xaibo = xaibo

    async def handle_text(self, text):
        await self.response.respond_text(",".join(self.xaibo._obj.list_agents()))


class Looks:
    def __init__(self, response: ResponseProtocol, config: dict = None): ...
    async def handle_image(self, image): ...
"""
SIMPLE = "{id: %s, modules: [{id: it, module: parts.%s}]}"
PNG_START = "iVBORw0KGgo"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)


def build_source_bridge(folder: Path, text: str, offer: str = "agent") -> SourceBridge:
    """Return a source with an agent."""
    write_files(folder, parts=PARTS, it_yaml=text)
    return SourceBridge(folder, agent=folder / "it.yaml", offer=offer)


async def test_an_agent_is_a_tool_with_a_message_as_its_argument(tmp_path: Path) -> None:
    text = "{id: echo.v1, description: Echoes., modules: [{id: it, module: parts.Echo}]}"
    async with build_source_bridge(tmp_path, text).client() as client:
        (tool,) = (await client.list_tools()).tools
        assert tool.description == "Echoes."
        assert tool.input_schema["required"] == ["message"]
        assert await call_text(client, tool.name, message="hello") == "you said hello"
        assert (await call_text(client, tool.name)).startswith("error: Input validation failed")
        assert (await call_text(client, tool.name, message="x", entry="y")).startswith("error: Input validation failed")


ENTRIES = """
id: multi.dot
modules:
  - {id: e1, module: parts.Echo, config: {word: "one "}}
  - {id: e2, module: parts.Echo, config: {word: "two "}}
  - {id: pictures, module: parts.Looks, provides: [ImageMessageHandlerProtocol]}
exchange:
  - {module: __entry__, protocol: ImageMessageHandlerProtocol, provider: pictures}
  - {module: __entry__, protocol: TextMessageHandlerProtocol, provider: %s}
"""


async def test_each_entry_point_is_a_tool_also_under_a_dotted_id(tmp_path: Path) -> None:
    source = build_source_bridge(tmp_path, ENTRIES % "[e1, e2]")
    async with source.client() as client:
        names = {tool.description: tool.name for tool in (await client.list_tools()).tools}
        assert sorted(entry.name for entry in source.source._agents) == ["multi.dot.e1", "multi.dot.e2"]
        text = [await call_text(client, name, message="hi") for _, name in sorted(names.items())]
        assert text == ["one hi", "two hi"]


async def test_a_message_goes_to_the_module_for_text(tmp_path: Path) -> None:
    source = build_source_bridge(tmp_path, ENTRIES % "e2")
    async with source.client() as client:
        (name,) = await list_schemas(client)
        assert await call_text(client, name, message="hi") == "two hi"
    assert [entry.name for entry in source.source._agents] == ["multi.dot"]


async def test_an_error_of_an_agent_is_a_failure_with_its_text(tmp_path: Path) -> None:
    text = "{id: it, modules: [{id: it, module: parts.Fails, config: {api_key: sesame-open}}]}"
    async with build_source_bridge(tmp_path, text).client() as client:
        assert (
            await call_text(client, "it", message="value") == "error: The agent 'it' failed: ValueError: no such thing"
        )
        assert await call_text(client, "it", message="key") == "error: The agent 'it' failed: KeyError: 'user'"
        assert (
            await call_text(client, "it", message="secret") == "error: The agent 'it' failed: OSError: [secret] refused"
        )
        assert await call_text(client, "it", message="on purpose") == "error: the author's words"


async def test_attachments_become_content_of_their_kind(tmp_path: Path) -> None:
    async with build_source_bridge(tmp_path, SIMPLE % ("it", "Draws")).client() as client:
        text, image, wav, mp3, notes, raw, odd, embedded_block = (await client.call_tool("it", {"message": ""})).content
        assert text.text == "Here."
        assert (image.type, image.mime_type, image.data[:11]) == ("image", "image/png", PNG_START)
        assert [(block.type, block.mime_type) for block in (wav, mp3)] == [
            ("audio", "audio/wav"),
            ("audio", "audio/mpeg"),
        ]
        assert (notes.resource.text, notes.resource.mime_type) == ("some notes", "text/plain")
        assert (raw.resource.blob, raw.resource.mime_type) == ("/wAgcmF3", "application/octet-stream")
        assert (odd.type, odd.resource.text) == ("resource", "no picture")
        assert (str(embedded_block.resource.uri), embedded_block.resource.mime_type) == (
            "xaibo://it/7/data.json",
            "application/json",
        )


@pytest.mark.parametrize(
    ("attachment", "block"),
    [
        ({"content": b"BM....", "type": "image"}, Image(b"BM....", "image/bmp")),
        ({"content": b"....ftypM4A ", "type": "audio"}, Audio(b"....ftypM4A ", "audio/mp4")),
        ({"content": b"raw", "type": "image", "mime_type": "image/x-raw"}, Image(b"raw", "image/x-raw")),
        ({"content": b"BM....", "type": "file"}, EmbeddedResource("xaibo://it/1", "BM....", "text/plain")),
        ({"content": "text", "type": "file"}, EmbeddedResource("xaibo://it/1", "text", "text/plain")),
        ({"content": io.StringIO("text"), "type": "file"}, EmbeddedResource("xaibo://it/1", "text", "text/plain")),
        ({"content": PNG, "type": "file"}, EmbeddedResource("xaibo://it/1", PNG, "image/png")),
        ({"content": PNG}, EmbeddedResource("xaibo://it/1", PNG, "image/png")),
    ],
)
def test_the_media_type_of_an_attachment_is_declared_or_detected(attachment: dict[str, Any], block: Content) -> None:
    arguments = {**attachment, "type": SimpleNamespace(value=attachment.get("type", "file"))}
    assert convert_attachment(SimpleNamespace(**arguments), "it/1") == block


async def test_an_agent_without_a_response_has_an_empty_result(tmp_path: Path) -> None:
    async with build_source_bridge(tmp_path, SIMPLE % ("it", "Silent")).client() as client:
        answer = await client.call_tool("it", {"message": "x"})
        assert not answer.is_error


REMEMBERS = """
id: it
modules:
  - {id: talk, module: parts.Remembers}
  - {id: memory, module: parts.Memory, provides: [Memory], scope: %s}
"""


@pytest.mark.parametrize(("scope", "message"), [("agent", ["1", "2", "3"]), ("instance", ["1", "1", "1"])])
async def test_modules_live_as_long_as_their_scope(scope: str, message: list[str], tmp_path: Path) -> None:
    async with build_source_bridge(tmp_path, REMEMBERS % scope).client() as client:
        assert [await call_text(client, "it", message="x") for _ in range(3)] == message


async def test_agent_and_tools_share_modules_of_the_scope_agent(tmp_path: Path) -> None:
    async with build_source_bridge(tmp_path, REMEMBERS % "agent", "both").client() as client:
        assert sorted(await list_schemas(client)) == ["it", "recall"]
        await call_text(client, "it", message="this")
        assert await call_text(client, "recall") == '["this"]'


async def test_agent_and_tools_do_not_share_modules_of_one_call(tmp_path: Path) -> None:
    async with build_source_bridge(tmp_path, REMEMBERS % "instance", "both").client() as client:
        assert [await call_text(client, "it", message="x") for _ in range(3)] == ["1", "1", "1"]


async def test_a_module_may_depend_on_the_xaibo_object(tmp_path: Path) -> None:
    async with build_source_bridge(tmp_path, SIMPLE % ("it", "Knows")).client() as client:
        assert await call_text(client, "it", message="x") == "it"


@pytest.mark.usefixtures("without_openai")
async def test_providers_are_published_if_the_agent_cannot_be_made(tmp_path: Path) -> None:
    text = """
    id: it
    modules:
      - {id: llm, module: xaibo.primitives.modules.llm.OpenAILLM, provides: [LLMProtocol]}
      - {id: talk, module: parts.Echo}
      - {id: memory, module: parts.Memory}
    """
    source = build_source_bridge(tmp_path, text, "both")
    async with source.client() as client:
        assert list(await list_schemas(client)) == ["recall"]
    (problem,) = source.problems
    assert problem.startswith("agent 'it' cannot be made: ")
    assert "Cannot import llm (xaibo.primitives.modules.llm.OpenAILLM)" in problem


async def test_an_agent_without_a_module_for_text_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="agent 'it' has no entry point that takes text"):
        await build_source_bridge(tmp_path, SIMPLE % ("it", "Looks")).source.run(lambda _: None)


async def test_memory_does_not_grow_with_the_calls_of_an_agent(tmp_path: Path) -> None:
    source = build_source_bridge(tmp_path, REMEMBERS % "instance")
    async with source.bridge.run_sources():
        await source.bridge.wait_until_started()
        (entry,) = source.source._agents
        agent: Any = entry.handler.__self__
        sizes = []
        for count in range(201):
            await entry.handler({"message": str(count)}, RunningCall())
            if count % 100 == 0:
                gc.collect()
                config = agent._config
                sizes.append(
                    (len(config.exchange), len(config.modules), len(agent._modules), _count_instances("parts", "xaibo"))
                )
    assert sizes[1] == sizes[2]
    assert sizes[0][:3] == sizes[2][:3]


def _count_instances(*packages: str) -> int:
    """Count the objects of the classes in these packages."""
    kinds = (str(type(item).__module__).partition(".")[0] for item in gc.get_objects())
    return sum(key in packages for key in kinds)


def test_the_measurement_shows_the_growth_of_xaibo_itself(tmp_path: Path) -> None:
    """As a check of the test above: asking xaibo itself for the agent leaves an entry behind each time."""
    from xaibo import AgentConfig, Xaibo

    write_files(tmp_path, parts=PARTS)
    sys.path.insert(0, str(tmp_path))
    config = AgentConfig.from_yaml(SIMPLE % ("it", "Echo"))
    xaibo = Xaibo()
    xaibo.register_agent(config)
    lengths = [(xaibo.get_agent("it"), len(config.exchange or ()))[1] for _ in range(10)]
    assert lengths[9] == lengths[0] + 9


class TestOnTrio:
    @pytest.fixture
    def anyio_backend(self) -> str:
        """Return trio. Agents cannot run on it."""
        return "trio"

    async def test_agents_are_rejected_on_trio(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match="agents of Xaibo run only on asyncio"):
            await build_source_bridge(tmp_path, SIMPLE % ("it", "Echo")).source.run(lambda _: None)


OWN_MODELS = """
from mcp_bridge.xaibo import Tool, ToolParameter, ToolResult


class Stock:
    def __init__(self, config: dict = None):
        pass

    async def list_tools(self):
        fruit = ToolParameter(type="string", required=True)
        return [Tool(name="count", description="Counts.", parameters={"fruit": fruit})]

    async def execute_tool(self, tool_name, parameters):
        return ToolResult(success=True, result=f"{parameters['fruit']}: 3")
"""
ORCHESTRATED = """
id: keeper
modules:
  - module: xaibo.primitives.modules.llm.MockLLM
    id: llm
    config:
      responses:
        - {content: "", tool_calls: [{id: "1", name: count, arguments: {fruit: pears}}]}
        - {content: There are three.}
  - {module: xaibo.primitives.modules.orchestrator.SimpleToolOrchestrator, id: talk, config: {max_thoughts: 5}}
  - {module: xaibo.primitives.modules.conversation.SimpleConversation, id: history}
  - {module: stock_of_own_models.Stock, id: stock, provides: [ToolProviderProtocol]}
"""


async def test_an_orchestrator_of_xaibo_gets_tools_as_models_of_xaibo(tmp_path: Path) -> None:
    (tmp_path / "stock_of_own_models.py").write_text(OWN_MODELS)
    (tmp_path / "keeper.yaml").write_text(ORCHESTRATED)
    (tmp_path / "bridge.yaml").write_text("sources: [{type: xaibo, agent: keeper.yaml, offer: agent}]\n")
    async with open_bridge(tmp_path / "bridge.yaml") as bridge:
        # The responses begin again in the second call, because each call has a new agent.
        for _ in range(2):
            assert (await bridge.registry.ainvoke("keeper", {"message": "How many?"})).data == "There are three."
