"""Using the tools of a settings file in a program: for a model API, and for a Xaibo agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_bridge import open_bridge
from mcp_bridge._contracts.errors import ConfigError, SourceError
from mcp_bridge.export import Export
from mcp_bridge.testing import connect
from mcp_bridge.xaibo import RegistryToolProvider, ToolProviderProtocol
from tests.kits.loops import BOTH_LOOPS

pytestmark = BOTH_LOOPS
TOOLS = """
from mcp_bridge import tool


@tool
def say(text: str) -> str:
    \"\"\"Say it.\"\"\"
    return text
"""
HOOK = """
from mcp_bridge.amplifier import HookResult


async def deny(event, data):
    if "secret" in str(data.get("tool_input")):
        return HookResult(action="deny", reason="it is secret")
    return HookResult(action="continue")


async def mount(coordinator, config=None):
    return coordinator.hooks.register("tool:pre", deny, name="deny")
"""
SETTINGS = """
sources:
  - {type: python, path: opened_tools.py}
  - type: amplifier
    plan:
      hooks:
        - {module: opened-hook, source: opened_hook.py}
"""


@pytest.fixture
def settings(tmp_path: Path, anyio_backend: str) -> Path:
    folder = tmp_path / anyio_backend
    folder.mkdir()
    (folder / "opened_tools.py").write_text(TOOLS)
    (folder / "opened_hook.py").write_text(HOOK)
    (folder / "mcp-bridge.yaml").write_text(SETTINGS)
    return folder / "mcp-bridge.yaml"


def request_call(text: str) -> dict[str, Any]:
    """Return a model's response with a call of the tool."""
    return {"content": [{"type": "tool_use", "id": "1", "name": "say", "input": {"text": text}}]}


@pytest.mark.usefixtures("forgotten")
async def test_an_export_of_a_settings_file_runs_calls_under_its_hooks(settings: Path) -> None:
    async with open_bridge(settings) as bridge:
        export = Export(bridge, "anthropic")
        assert [tool["name"] for tool in export.tools] == ["say"]
        (message,) = await export.run(request_call("hello"))
        assert message["content"][0]["content"] == "hello"
        (message,) = await export.run(request_call("secret"))
    (result,) = message["content"]
    assert (result["is_error"], result["content"]) == (True, "Tool 'say' was denied: it is secret")


@pytest.mark.usefixtures("forgotten")
async def test_a_xaibo_agent_calls_the_tools_of_a_settings_file_under_its_hooks(settings: Path) -> None:
    async with open_bridge(settings) as bridge:
        provider = RegistryToolProvider(bridge)
        assert isinstance(provider, ToolProviderProtocol)
        assert (await provider.execute_tool("say", {"text": "hello"})).result == "hello"
        denial = await provider.execute_tool("say", {"text": "secret"})
    assert (denial.success, denial.error) == (False, "Tool 'say' was denied: it is secret")


@pytest.mark.usefixtures("forgotten")
async def test_a_python_file_can_be_opened_too(settings: Path) -> None:
    async with open_bridge(str(settings.parent / "opened_tools.py")) as bridge:
        assert [entry.name for entry in bridge.registry.list()] == ["say"]


async def test_an_unusable_file_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("nothing_of_ours: 1\n")
    with pytest.raises(ConfigError, match="unknown key 'nothing_of_ours'"):
        async with open_bridge(tmp_path / "bad.yaml"):
            pass
    with pytest.raises((ConfigError, SourceError), match=r"none\.py"):
        async with open_bridge(tmp_path / "none.py"):
            pass


@pytest.mark.usefixtures("forgotten")
async def test_clients_that_connect_to_an_open_bridge_use_its_sources(settings: Path) -> None:
    async with open_bridge(settings) as bridge:
        # The first round must leave the sources running.
        for _ in range(2):
            async with connect(bridge) as client:
                denial = await client.call_tool("say", {"text": "secret"})
                assert "it is secret" in denial.content[0].text
                assert (await client.call_tool("say", {"text": "hello"})).content[0].text == "hello"
        (message,) = await Export(bridge, "anthropic").run(request_call("hello"))
        assert message["content"][0]["content"] == "hello"
