"""A user's machine in a folder, for tests of `doctor`: a home, a project, servers, and the files of clients."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kits.forked_commands import get_forked_command

INSTALL_TIMEOUT = 240.0
ERAS = ["stateless 2026-07-28", "handshake 2025-11-25"]
TOOLS = '''
import os
from pathlib import Path

from mcp_bridge import tool


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(annotations={"readOnlyHint": True})
def where() -> str:
    """Say where this runs."""
    return f"{Path.cwd()} {os.environ['PATH']} {os.environ.get('MY_TOKEN')}"


@tool
def fail() -> str:
    """Fail."""
    raise ValueError("not today")
'''
ONE_ERA = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    answers = {
        "initialize": {"capabilities": {}, "protocolVersion": "2025-11-25", "serverInfo": {"name": "old one"}},
        "tools/list": {"tools": []},
    }
    if "id" in request:
        found = answers.get(request["method"])
        answer = {"result": found} if found else {"error": {"code": -32601, "message": "no"}}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)
"""
LIGHT = """
import json, os, sys
SCHEMA = {"type": "object", "properties": {}}
TOOLS = [{"name": name, "description": "A tool.", "inputSchema": SCHEMA} for name in ("add", "fail", "where")]
TOOLS[2]["annotations"] = {"readOnlyHint": True}
def called(name, given):
    texts = {"add": sum(given.values()), "fail": "not today", "where": " ".join(map(str, (
        os.getcwd(), os.environ["PATH"], os.environ.get("MY_TOKEN"))))}
    return {"isError": name == "fail", "content": [{"type": "text", "text": str(texts[name])}]}
for line in sys.stdin:
    request = json.loads(line)
    result = {"capabilities": {}, "protocolVersion": "2025-11-25", "tools": TOOLS}
    if request["method"] == "tools/call":
        result = called(request["params"]["name"], request["params"]["arguments"])
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""


@dataclass(frozen=True)
class DoctorResult:
    """A finished `doctor`."""

    code: int
    out: str
    err: str

    @property
    def server(self) -> Any:
        """The one server of the JSON on stdout."""
        (server,) = json.loads(self.out)["servers"]
        return server

    @property
    def failures(self) -> dict[str, str]:
        """The details of the failed checks of the only server, by check."""
        return {check["check"]: check["detail"] for check in self.server["checks"] if not check["ok"]}

    @property
    def advice(self) -> dict[str, str]:
        """All advice about the one server, by check."""
        return {check["check"]: check["advice"] for check in self.server["checks"] if check["advice"]}


@dataclass(frozen=True)
class DoctorHome:
    """A user's home and project."""

    home: Path
    project: Path

    @property
    def tools(self) -> Path:
        """The user's tool file."""
        return self.project / "tools.py"

    def run(self, *words: str | Path, env: Mapping[str, str] | None = None) -> DoctorResult:
        """Run the command in the project."""
        variables = {
            name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "CLAUDE", "CODEX"))
        }
        process = subprocess.run(
            [*get_forked_command(), "mcp_bridge", *map(str, words)],
            cwd=self.project,
            env={**variables, "HOME": str(self.home), "USERPROFILE": str(self.home), **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=INSTALL_TIMEOUT,
        )
        return DoctorResult(process.returncode, process.stdout, process.stderr)

    def doctor(self, *words: str | Path, env: Mapping[str, str] | None = None) -> DoctorResult:
        """Run `mcp-bridge doctor` with JSON output."""
        timeout = () if "--timeout" in words else ("--timeout", str(INSTALL_TIMEOUT))
        return self.run("doctor", *words, *timeout, "--json", env=env)

    def write_entry(self, *argv: str | Path, name: str = "shelf", **more: Any) -> None:
        """Write Gemini CLI's file of the user with this server as its only entry.

        Gemini CLI is the client of these tests because it waits ten minutes for a server.
        """
        command, *args = map(str, argv)
        entry = {"command": command, "args": args, **more}
        self.gemini.parent.mkdir(exist_ok=True)
        self.gemini.write_text(json.dumps({"mcpServers": {name: entry}}), encoding="utf-8")

    @property
    def gemini(self) -> Path:
        """The user's settings of Gemini CLI."""
        return self.home / ".gemini" / "settings.json"

    @property
    def claude(self) -> Path:
        """The user's settings of Claude Code."""
        return self.home / ".claude.json"

    def write_light_server(self) -> list[str | Path]:
        """Return the command of a fast server with the same tools. It is not a bridge, so `doctor` checks its names."""
        path = self.project / "light.py"
        path.write_text(LIGHT, encoding="utf-8")
        return [sys.executable, "-S", path]

    def make_serve_command(self, path: str | Path | None = None) -> list[str | Path]:
        """Return the command of a server for a file, by default the user's tools."""
        return [sys.executable, "-m", "mcp_bridge", "serve", path or self.tools]


def make_home(folder: Path) -> DoctorHome:
    """Create a user with a home, a project and tools."""
    home = DoctorHome(home=folder / "home", project=folder / "my project")
    home.home.mkdir()
    home.project.mkdir()
    home.tools.write_text(TOOLS, encoding="utf-8")
    return home


def write_script(home: DoctorHome, text: str) -> Path:
    """Write an executable shell script of the user."""
    path = home.project / "start.sh"
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path
