"""Try an installed wheel as a user does: its version, a call by the official client, and an installation for a client.

`python release/smoke.py ENVIRONMENT`, where ENVIRONMENT is a virtual environment with the wheel.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

TIMEOUT = 60.0
TOOLS = '''
from mcp_bridge import tool


@tool
def add(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second
'''


def run_command(command: str, *words: str, home: Path) -> str:
    """Run the command with a temporary home, and return its output."""
    env = {**os.environ, "HOME": str(home), "USERPROFILE": str(home), "XDG_CONFIG_HOME": str(home / ".config")}
    process = subprocess.run(
        [command, *words], check=False, cwd=home, env=env, capture_output=True, encoding="utf-8", timeout=TIMEOUT
    )
    if process.returncode:
        raise SystemExit(f"{command} {' '.join(words)}\n{process.stdout}{process.stderr}")
    return process.stdout


async def call_tool(argv: list[str]) -> str:
    """Start a server, and call the tool `add` with the official client."""
    with anyio.fail_after(TIMEOUT):
        async with Client(stdio_client(StdioServerParameters(command=argv[0], args=argv[1:]))) as client:
            result = await client.call_tool("add", {"first": 1, "second": 2})
            return result.content[0].text


def main() -> None:
    """Run the trials. Exits with a message if the outcome of one is not the expected one."""
    scripts = Path(sys.argv[1]).absolute() / ("Scripts" if os.name == "nt" else "bin")
    command = str(scripts / "mcp-bridge")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        tools = home / "tools.py"
        tools.write_text(TOOLS, encoding="utf-8")
        outcomes = {"--version": run_command(command, "--version", home=home).strip()}
        outcomes["validate"] = run_command(command, "validate", str(tools), home=home).strip()
        for name, argv in (
            ("mcp-bridge", [command, "serve", str(tools)]),
            ("python -m mcp_bridge", [str(scripts / "python"), "-m", "mcp_bridge", "serve", str(tools)]),
        ):
            result = anyio.run(call_tool, argv)
            if result != "3":
                raise SystemExit(f"{name}: the call returned {result}, not 3")
        run_command(command, "install", "cursor", str(tools), "--name", "smoke", home=home)
        entry = json.loads((home / ".cursor" / "mcp.json").read_text(encoding="utf-8"))["mcpServers"]["smoke"]
        result = anyio.run(call_tool, [entry["command"], *entry["args"]])
        if result != "3":
            raise SystemExit(f"the installed entry: the call returned {result}, not 3")
        run_command(command, "uninstall", "cursor", "smoke", home=home)
        if (home / ".cursor" / "mcp.json").exists():
            raise SystemExit("uninstall: the client's file is still there")
    print("The wheel works:", json.dumps(outcomes))


if __name__ == "__main__":
    main()
