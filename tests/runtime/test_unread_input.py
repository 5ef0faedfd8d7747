"""Programs of hooks and tools may end without reading their standard input."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the programs are a Unix shell and head")

CALLS, IN_FLIGHT = 300, 16
PIPE = 64 * 1024
"""The capacity of a pipe on Linux in bytes. Writing more blocks without a reader."""

SHELL_HOOK = """
import asyncio, json
from mcp_bridge.amplifier import HookResult

PIPES = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}


async def run(command, data):
    process = await asyncio.create_subprocess_shell(command, **PIPES)
    try:
        given = json.dumps({"tool_input": data["tool_input"]}).encode()
        _, errors = await asyncio.wait_for(process.communicate(input=given), timeout=30)
        return process.returncode or 0, errors.decode()
    except Exception as error:
        return 1, f"Hook execution failed: {error}"


async def mount(coordinator, config):
    async def decide(event, data):
        code, errors = await run("echo forbidden >&2; exit 2", data)
        return HookResult(action="deny", reason=errors.strip()) if code == 2 else HookResult(action="continue")

    return coordinator.hooks.register("tool:pre", decide, priority=20)
"""
"""Like amplifier-module-hook-shell: exit code 2 denies, and any other one allows, even an error of the hook."""

TOOLS = """
import asyncio
from pathlib import Path
from mcp_bridge import tool


@tool
def act(text: str) -> str:
    \"\"\"Do what the hook denies.\"\"\"
    with Path("acted.txt").open("a") as file:
        file.write("acted\\n")
    return "acted"


@tool
async def first_line(number: int) -> str:
    \"\"\"The first line of 1 MiB, by `head`, which may end before it has got the rest.\"\"\"
    process = await asyncio.create_subprocess_exec(
        "head", "-n", "1", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    process.stdin.write(f"line {number}\\n".encode())
    line = await process.stdout.readline()
    rest, _ = await process.communicate(b"x" * 1024 * 1024)
    return (line + rest).decode()
"""


async def call_many(settings: Path, tool: str, arguments: Iterator[dict[str, Any]]) -> list[types.CallToolResult]:
    """Return the results of calls by the official client, in the order of the arguments; some calls run at a time."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "mcp_bridge", "serve", str(settings)],
        env=dict(os.environ),
        cwd=str(settings.parent),
    )
    results: dict[int, types.CallToolResult] = {}
    numbered = enumerate(arguments)

    async with Client(stdio_client(server)) as client:

        async def call_in_turn() -> None:
            for number, given in numbered:
                results[number] = await client.call_tool(tool, given)

        async with anyio.create_task_group() as tasks:
            for _ in range(IN_FLIGHT):
                tasks.start_soon(call_in_turn)
    return [results[number] for number in sorted(results)]


def write_settings(folder: Path, isolation: str, *sources: dict[str, Any]) -> Path:
    """Write a settings file with the tools of this module, and other sources."""
    (folder / "tools.py").write_text(TOOLS)
    path = folder / "bridge.json"
    tools = {"type": "python", "path": "tools.py", "isolation": isolation}
    path.write_text(json.dumps({"sources": [tools, *sources]}))
    return path


def get_text(result: types.CallToolResult) -> str:
    return " ".join(block.text for block in result.content if isinstance(block, types.TextContent))


async def test_a_program_that_denies_without_reading_the_call_denies_every_call(tmp_path: Path) -> None:
    (tmp_path / "shell_hook.py").write_text(SHELL_HOOK)
    plan = {"hooks": [{"module": "shell_hook", "source": "shell_hook.py"}]}
    settings = write_settings(tmp_path, "none", {"type": "amplifier", "plan": plan})
    results = await call_many(settings, "act", ({"text": "x" * 2 * PIPE} for _ in range(CALLS)))
    assert len(results) == CALLS
    assert [get_text(result) for result in results if "forbidden" not in get_text(result)] == []
    assert not (tmp_path / "acted.txt").exists()


@pytest.mark.parametrize("isolation", ["none", "process"])
async def test_a_tool_receives_the_output_of_a_program_that_stops_reading(isolation: str, tmp_path: Path) -> None:
    settings = write_settings(tmp_path, isolation)
    results = await call_many(settings, "first_line", ({"number": number} for number in range(CALLS)))
    assert [get_text(result) for result in results] == [f"line {number}\n" for number in range(CALLS)]
