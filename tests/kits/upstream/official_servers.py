"""The official servers behind a bridge: `make gateway`. Installs them from npm and PyPI into a temporary folder.

Not a part of the tests: it needs the network. Prints a line for each server, and ends with 1 where one does not work.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
from mcp.client import Client

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._settings import load
from mcp_bridge.testing import connect
from tests.kits.node.toolchain import find_node, node_environment, npm_command

NPM = ("server-everything", "server-filesystem", "server-memory")
PYPI = ("mcp-server-time", "mcp-server-fetch", "mcp-server-git")
START = 60.0
"""Seconds until all servers are connected."""
Arguments = Mapping[str, Any]


def install(folder: Path) -> Mapping[str, tuple[str, ...]]:
    """Install the servers; return the command of each."""
    node = find_node()
    packages = [f"@modelcontextprotocol/{name}" for name in NPM]
    npm = [*npm_command(node), "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(folder), *packages]
    subprocess.run(npm, check=True, env=node_environment(node))
    environment = folder / "python"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    subprocess.run([environment / "bin/pip", "install", "--quiet", *PYPI], check=True)
    modules = folder / "node_modules/.bin"
    commands = {name: (str(node), str((modules / f"mcp-{name}").resolve())) for name in NPM}
    return {**commands, **{name: (str(environment / "bin" / name),) for name in PYPI}}


def prepare_files(folder: Path) -> Path:
    """Create a folder with a note, which is also a git repository."""
    entity = {"type": "entity", "name": "bridge", "entityType": "thing", "observations": ["it works"]}
    (folder / "memory.json").write_text(json.dumps(entity))
    files = folder / "files"
    files.mkdir()
    (files / "note.txt").write_text("a note")
    subprocess.run(["git", "init", "--quiet", files], check=True)
    return files


def write_settings(folder: Path, commands: Mapping[str, tuple[str, ...]], files: Path) -> Path:
    """Write a client's file with all servers."""
    extra = {"server-filesystem": [str(files)], "mcp-server-time": ["--local-timezone", "UTC"]}
    variables = {"server-memory": {"MEMORY_FILE_PATH": str(folder / "memory.json")}}
    servers = {
        name: {"command": program, "args": [*words, *extra.get(name, [])], "env": variables.get(name, {})}
        for name, (program, *words) in commands.items()
    }
    settings = folder / "mcp.json"
    settings.write_text(json.dumps({"mcpServers": servers}))
    return settings


def list_calls(files: Path) -> Mapping[str, tuple[str, Arguments, str]]:
    """Return a call of each server, and a part of its expected result."""
    return {
        "server-everything": ("get-sum", {"a": 19, "b": 23}, "42"),
        "server-filesystem": ("read_text_file", {"path": str(files / "note.txt")}, "a note"),
        "server-memory": ("search_nodes", {"query": "bridge"}, "it works"),
        "mcp-server-time": ("get_current_time", {"timezone": "UTC"}, "UTC"),
        "mcp-server-fetch": ("fetch", {"url": "http://127.0.0.1:1/none"}, ""),
        "mcp-server-git": ("git_status", {"repo_path": str(files)}, "note.txt"),
    }


async def check_servers(settings: Path, files: Path) -> int:
    """Connect in both eras, list everything and call each server; the exit code."""
    failures = 0
    for mode in ("legacy", "2026-07-28"):
        async with connect(build_from_settings(load(settings, {})), mode=mode, cache=None) as client:
            for name, (tool, arguments, expected) in list_calls(files).items():
                problem = await find_problem(client, f"{name}__{tool}", arguments, expected)
                print(f"{mode:<11} {name:<18} {problem or 'ok'}", flush=True)
                failures += bool(problem)
            tools, prompts = (await client.list_tools()).tools, (await client.list_prompts()).prompts
            resources = (await client.list_resources()).resources
            print(f"{mode:<11} {len(tools)} tools, {len(prompts)} prompts, {len(resources)} resources", flush=True)
    return int(failures > 0)


async def find_problem(client: Client, tool: str, arguments: Arguments, expected: str) -> str:
    """Return why a call did not work, or ''. Without an expected text, an error of the tool is right."""
    with anyio.move_on_after(START):
        while tool not in {item.name for item in (await client.list_tools()).tools}:  # noqa: ASYNC110 - what a client sees
            await anyio.sleep(0.2)
    result = await client.call_tool(tool, dict(arguments))
    text = "\n".join(block.text for block in result.content if block.type == "text")
    is_right = expected in text if expected else result.is_error
    return "" if is_right else f"{tool}: {text[:300]}"


def main() -> int:
    """Install and check; the exit code."""
    with tempfile.TemporaryDirectory(prefix="official ") as name:
        folder = Path(name)
        files = prepare_files(folder)
        settings = write_settings(folder, install(folder), files)
        return anyio.run(check_servers, settings, files)


if __name__ == "__main__":
    raise SystemExit(main())
