"""Tools that add and remove one tool and one prompt, for the scenarios about changed lists.

Instances behind one address must have the same lists, so a change is sent to all of them. Each instance listens on a
port, and creates a file in a common folder with the number of the port as its name.
"""

from __future__ import annotations

import socket
import threading
from pathlib import Path

from shelf import registry

from mcp_bridge import ToolEntry, tool
from mcp_bridge.sources import PromptEntry

VISITING_TOOL = ToolEntry("test_visiting_tool", "Here one moment, gone the next.", lambda _: "still here")
VISITING_PROMPT = PromptEntry("test_visiting_prompt", lambda _: "still here", "Here one moment, gone the next.")


def change_tools() -> None:
    """Add the visiting tool, or remove it if it is published."""
    if not registry.unregister(VISITING_TOOL.name):
        registry.register(VISITING_TOOL)


def change_prompts() -> None:
    """Add the visiting prompt, or remove it if it is published."""
    if not registry.prompts.remove(VISITING_PROMPT.name):
        registry.prompts.add(VISITING_PROMPT)


CHANGES = {b"t": change_tools, b"p": change_prompts}


def publish(instances: Path | None) -> None:
    """Publish the tools that change the offer, of this process or of all processes with a port in the folder."""
    if instances is not None:
        ear = socket.create_server(("127.0.0.1", 0))
        (instances / str(ear.getsockname()[1])).touch()
        threading.Thread(target=receive_changes, args=(ear,), name="changes", daemon=True).start()

    def make(change: bytes) -> str:
        if instances is None:
            CHANGES[change]()
        else:
            send_change(instances, change)
        return "The list has changed."

    @tool(registry=registry)
    def test_trigger_tool_change() -> str:
        """Change the list of tools."""
        return make(b"t")

    @tool(registry=registry)
    def test_trigger_prompt_change() -> str:
        """Change the list of prompts."""
        return make(b"p")


def receive_changes(ear: socket.socket) -> None:
    """Apply the changes of all instances until the process ends."""
    while True:
        line, _ = ear.accept()
        with line:
            change = line.recv(1)
            CHANGES[change]()
            line.sendall(change)


def send_change(instances: Path, change: bytes) -> None:
    """Make a change in every instance, including this one, and return when all have made it."""
    for port in instances.iterdir():
        with socket.create_connection(("127.0.0.1", int(port.name))) as line:
            line.sendall(change)
            line.recv(1)
