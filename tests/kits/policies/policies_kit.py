"""One tool in each type of source, and bridges with policies, for the tests of policies."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from mcp.client import Client

from mcp_bridge._app.bridge import Bridge
from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolResult
from mcp_bridge._settings import load
from mcp_bridge.testing import connect
from tests.kits.upstream.upstream_kit import wait_for_tool

Json = dict[str, Any]
KINDS = ("python", "amplifier", "upstream")
RUNS = "runs"
_BODY = '''
from pathlib import Path

RUNS = Path(__file__).with_name("runs")


def write_note(text: str) -> str:
    """Fail for the text `flaky` until the third run."""
    with RUNS.open("a") as file:
        file.write("x")
    if text == "flaky" and RUNS.stat().st_size < 3:
        raise ConnectionError("reset by peer")
    return f"the note: {text}"
'''
PYTHON_TOOL = f'''{_BODY}

from mcp_bridge import tool


@tool
def note(text: str) -> str:
    """Write a note."""
    return write_note(text)
'''
AMPLIFIER_MODULE = f"""{_BODY}

class Note:
    name = "note"
    description = "Write a note."
    input_schema = {{"type": "object", "properties": {{"text": {{"type": "string"}}}}, "required": ["text"]}}

    async def execute(self, input):
        return write_note(input["text"])


async def mount(coordinator, config):
    await coordinator.mount("tools", Note())
"""


def write_source(folder: Path, source_type: str) -> Json:
    """Write the tool `note` of a kind of source, and return the source. The upstream server is another bridge."""
    if source_type == "amplifier":
        # A process imports each module only once, so the name is new.
        file = folder / f"note_{uuid4().hex}.py"
        file.write_text(AMPLIFIER_MODULE)
        return {"type": "amplifier", "plan": {"tools": [{"module": "note", "source": file.name}]}}
    (folder / "tools.py").write_text(PYTHON_TOOL)
    if source_type == "python":
        return {"type": "python", "path": "tools.py"}
    command = [sys.executable, "-m", "mcp_bridge", "serve", "tools.py"]
    return {"type": "mcp", "prefix": "", "command": command[0], "args": command[1:], "cwd": str(folder)}


def build_bridge(folder: Path, source: Json, *policy: Any, watch: bool = False, **settings: Any) -> Bridge:
    """Build a bridge of one source under policies."""
    file = folder / "bridge.json"
    file.write_text(json.dumps({"sources": [source], "policy": policy, **settings}))
    return build_from_settings(load(file, {}), watch=watch)


@contextlib.asynccontextmanager
async def connect_under(
    folder: Path,
    source_type: str,
    *policy: Any,
    hints: Json | None = None,
    options: Json | None = None,
    **settings: Any,
) -> AsyncIterator[Client]:
    """Connect the official client to the tool `note` of a kind of source, with these hints, under policies."""
    source = {**write_source(folder, source_type), "overrides": {"note": {"annotations": hints or {}}}}
    async with connect(build_bridge(folder, source, *policy, **settings), **(options or {})) as client:
        # Another server may still be starting.
        await wait_for_tool(client, "note")
        yield client


async def call_note(client: Client, text: str = "hello") -> tuple[bool, str]:
    """Call the tool; return whether it succeeded, and the text of its result or error."""
    result = await client.call_tool("note", {"text": text})
    return not result.is_error, "\n".join(block.text for block in result.content if block.type == "text")


def count_runs(folder: Path) -> int:
    """Return how often the tool has run."""
    file = folder / RUNS
    return file.stat().st_size if file.exists() else 0


@contextlib.asynccontextmanager
async def open_tools(folder: Path, code: str, *policy: Any, **settings: Any) -> AsyncIterator[Bridge]:
    """Run the tools of Python code under policies."""
    (folder / "tools.py").write_text(f"from mcp_bridge import CallContext, tool, resource, prompt\n{code}")
    source = {"type": "python", "path": "tools.py", **settings.pop("source", {})}
    bridge = build_bridge(folder, source, *policy, **settings)
    async with bridge.run_sources():
        await bridge.wait_until_started()
        yield bridge


async def call(bridge: Bridge, tool: str, principal: str | None = None, **arguments: Any) -> ToolResult:
    """Call a tool as a principal."""
    tool_call = ToolCall(id="1", name=tool, arguments=arguments)
    return await bridge.registry.dispatch(tool_call, RunningCall(principal=principal))
