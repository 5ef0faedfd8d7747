"""An agent over real transports: its progress, its conversations, and its tasks in the log."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from mcp_bridge import open_bridge
from tests.integrations.amplifier.agent.test_agent_tool import name_module
from tests.kits.amplifier.amplifier_modules import write_files
from tests.kits.amplifier.amplifier_plans import HEADS
from tests.kits.constants import EVERY_ERA, STATELESS, TIMEOUT
from tests.kits.hooks.hooks_kit import ScriptedUser, get_code, get_texts
from tests.kits.http.http_hosting import HTTP_WAYS, IN_EVERY_HTTP_WAY, HttpWay, serve_http

SECRET = "the surprise party"
FILES = """
class Read:
    name = "read_file"
    description = "Read a file."
    input_schema = {"type": "object", "properties": {"path": {"type": "string"}}}

    async def execute(self, input):
        return ToolResult(output="hello")

async def mount(coordinator, config):
    await coordinator.mount("tools", Read())

    async def ask(event, data):
        return HookResult(action="ask_user", approval_prompt="May it?")

    coordinator.hooks.register("prompt:submit", ask)
"""
SETTINGS = """
sources:
  - type: amplifier
    plan:
      session: {orchestrator: loop-streaming, context: context-simple}
      providers:
        - module: provider-scripted
          config:
            responses:
              - {text: I look., calls: [{name: read_file, arguments: {path: the surprise party}}]}
              - Done.
      tools:
        - {module: NAME, source: NAME.py}
"""


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    name = name_module(tmp_path, "files")
    write_files(tmp_path, {f"{name}.py": HEADS["native"] + FILES, "agent.yaml": SETTINGS.replace("NAME", name)})
    return tmp_path / "agent.yaml"


@contextlib.asynccontextmanager
async def connect_stdio(settings: Path, **options: Any) -> AsyncIterator[Client]:
    """Connect the official client to a server process with the log `server.log`."""
    log = str(settings.parent / "server.log")
    arguments = ["-m", "mcp_bridge", "serve", str(settings), "--log-level", "info", "--log-file", log]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ), cwd=settings.parent)
    with anyio.fail_after(TIMEOUT):
        async with Client(stdio_client(server), **options) as client:
            yield client


async def run_with_progress(client: Client) -> tuple[Any, list[str | None]]:
    """Run an agent, and return the result and the progress messages."""
    messages: list[str | None] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        messages.append(message)

    task = {"task": f"Plan {SECRET}."}
    return await client.call_tool("run_agent", task, progress_callback=report), messages


@EVERY_ERA
async def test_progress_names_the_tool_over_stdio_and_the_log_does_not_show_the_task(mode: str, settings: Path) -> None:
    user = ScriptedUser("Allow once")
    async with connect_stdio(settings, mode=mode, elicitation_callback=user) as client:
        result, messages = await run_with_progress(client)
    assert get_texts(result)[0] == "Done."
    assert user.prompts == ["May it?"]
    assert messages == ["I look.", "The agent runs the tool 'read_file'.", "Done."]
    log = (settings.parent / "server.log").read_text()
    assert "the user chose" in log
    assert SECRET not in log


@IN_EVERY_HTTP_WAY
async def test_progress_names_the_tool_over_http(way: HttpWay, settings: Path) -> None:
    user = ScriptedUser("Allow once")
    async with (
        open_bridge(settings) as bridge,
        serve_http(bridge.registry) as (base, _),
        way.connect(base, elicitation_callback=user) as client,
    ):
        result, messages = await run_with_progress(client)
    assert get_texts(result)[0] == "Done."
    assert messages == ["I look.", "The agent runs the tool 'read_file'.", "Done."]


async def test_a_conversation_continues_in_the_next_stateless_request_by_its_handle(settings: Path) -> None:
    user, way = ScriptedUser("Allow once"), HTTP_WAYS[1]
    assert way.mode == STATELESS
    async with open_bridge(settings) as bridge, serve_http(bridge.registry) as (base, _):
        async with way.connect(base, elicitation_callback=user) as client:
            first = (await client.call_tool("run_agent", {"task": "One."})).structured_content
        async with way.connect(base, elicitation_callback=user) as client:
            task = {"task": "Two.", "session": first["session"]}
            second = (await client.call_tool("run_agent", task)).structured_content
            result = await client.call_tool("run_agent", {**task, "session": "guessed"})
    assert second["session"] == first["session"]
    assert second["usage"]["input_tokens"] > first["usage"]["input_tokens"]
    assert get_code(result) == "session_not_found"


async def test_a_conversation_of_a_handshake_session_ends_with_it_over_http(settings: Path) -> None:
    user, way = ScriptedUser("Allow once"), HTTP_WAYS[0]
    async with open_bridge(settings) as bridge, serve_http(bridge.registry) as (base, _):
        async with way.connect(base, elicitation_callback=user) as client:
            first = (await client.call_tool("run_agent", {"task": "One."})).structured_content
        async with way.connect(base, elicitation_callback=user) as client:
            task = {"task": "Two.", "session": first["session"]}
            assert get_code(await client.call_tool("run_agent", task)) == "session_not_found"
