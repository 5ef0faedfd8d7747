"""The files in the folder of a simulated computer that the smokes of the commands use."""

from __future__ import annotations

import json

from tests.kits.platforms.simulated_systems import SimulatedComputer

TOOLS = '''
from mcp_bridge import prompt, resource, tool

@tool(annotations={"readOnlyHint": True})
def greet(who: str = "you") -> str:
    """Greet."""
    return f"Grüße, {who}"

@resource("note://one")
def note() -> str:
    """A note."""
    return "Notiz"

@prompt
def ask(topic: str) -> str:
    """Ask."""
    return f"About {topic}"
'''
_SOURCES = "sources: [{type: python, path: tools.py}]\n"
FILES = {
    "tools.py": TOOLS,
    "isolated.yaml": "sources: [{type: python, path: tools.py, isolation: process}]\n",
    "audited.yaml": f"{_SOURCES}policy: [{{audit: {{path: audit.sqlite3}}}}]\n",
    "approved.yaml": f"{_SOURCES}policy: [{{approval: {{tools: [greet]}}}}]\n",
    "signed.yaml": "sources: [{type: mcp, name: up, url: 'http://127.0.0.1:1/mcp', auth: oauth}]\n",
    "modules.yaml": "sources: [{type: amplifier, plan: {tools: [{module: module_tool, source: module_tool.py}]}}]\n",
    "module_tool.py": """
class Greeter:
    name, description, input_schema = "greeter", "Greet.", {"type": "object"}

    async def execute(self, input):
        return {"success": True, "output": "Hello"}

async def mount(coordinator, config):
    await coordinator.mount("tools", Greeter())
""",
    # The program leaves a process behind.
    "program.py": """
import subprocess, sys

quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], **quiet)
print(sys.argv[1], process.pid)
""",
    "api.json": json.dumps(
        {
            "openapi": "3.1.0",
            "info": {"title": "Notes", "version": "1"},
            "servers": [{"url": "http://127.0.0.1:1"}],
            "paths": {"/notes": {"get": {"operationId": "list_notes", "responses": {"200": {"description": "Notes"}}}}},
        }
    ),
}
HELP = """#!/bin/sh
echo 'usage: shout [-h] [--loud] TEXT

positional arguments:
  TEXT        The text.

options:
  -h, --help  Show this message and exit.
  --loud      Shout louder.'
"""


def prepare(computer: SimulatedComputer) -> None:
    """Write the files of the smokes."""
    for name, text in FILES.items():
        (computer.folder / name).write_text(text, encoding="utf-8")
    command = json.dumps(str(computer.python))
    upstream = f"sources: [{{type: mcp, name: up, command: {command}, args: [-m, mcp_bridge, serve, tools.py]}}]\n"
    (computer.folder / "upstream.yaml").write_text(upstream, encoding="utf-8")
    words = f"[{command}, program.py, '{{text}}']"
    tool = f"{{description: Prints., command: {words}, parameters: {{text: string}}}}"
    (computer.folder / "program.yaml").write_text(f"sources: [{{type: command, tools: {{show: {tool}}}}}]\n", "utf-8")
    computer.add_script("shout.exe" if computer.system == "win32" else "shout", HELP)
