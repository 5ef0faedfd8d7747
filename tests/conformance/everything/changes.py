"""Tools that change what is published: one tool and one prompt that come and go.

Instances behind one address publish the same; what they agree on stands in a file that each of them watches.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from shelf import registry

from mcp_bridge import PromptEntry, ToolEntry, tool

LOOK_AGAIN = 0.05
"""Seconds between two looks at the file."""

VISITING_TOOL = ToolEntry("test_visiting_tool", "Here one moment, gone the next.", lambda _: "still here")
VISITING_PROMPT = PromptEntry("test_visiting_prompt", lambda _: "still here", "Here one moment, gone the next.")


def change_tools() -> None:
    """Let the visiting tool come, or go if it is there."""
    if not registry.unregister(VISITING_TOOL.name):
        registry.register(VISITING_TOOL)


def change_prompts() -> None:
    """Let the visiting prompt come, or go if it is there."""
    if not registry.prompts.remove(VISITING_PROMPT.name):
        registry.prompts.add(VISITING_PROMPT)


CHANGES = {b"t": change_tools, b"p": change_prompts}


def publish(shared: Path | None) -> None:
    """Publish the tools that change things: here, or by way of the file wherever that is watched."""
    announce = said_here
    if shared is not None:
        announce = said_in(shared)
        threading.Thread(target=watch, args=(shared,), name="watch shared lists", daemon=True).start()

    @tool(registry=registry)
    def test_trigger_tool_change() -> str:
        """Change the list of tools."""
        announce(b"t")
        return "The list of tools changes."

    @tool(registry=registry)
    def test_trigger_prompt_change() -> str:
        """Change the list of prompts."""
        announce(b"p")
        return "The list of prompts changes."


def said_here(change: bytes) -> None:
    """Make a change in this process."""
    CHANGES[change]()


def said_in(shared: Path) -> Callable[[bytes], None]:
    """Write a change down for all instances, this one among them."""

    def write(change: bytes) -> None:
        with shared.open("ab", buffering=0) as file:
            file.write(change)

    return write


def watch(shared: Path) -> None:
    """Make the changes that the file tells of, for as long as the process lives."""
    pause = threading.Event()
    with shared.open("rb", buffering=0) as file:
        while not pause.wait(LOOK_AGAIN):
            for change in file.read():
                said_here(bytes([change]))
