"""A gateway in front of scripted servers. Tests change their offers."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client

from mcp_bridge._app.bridge import Bridge
from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._settings import load
from tests.kits.constants import TIMEOUT

SERVER = Path(__file__).with_name("scripted_server.py")
Json = dict[str, Any]


def describe_tool(name: str = "read", description: str = "Read a file.", **more: Any) -> Json:
    """Return a tool as a server lists it."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    return {"name": name, "description": description, "inputSchema": schema, **more}


@dataclass
class ScriptedGateway:
    """Settings with scripted servers in a folder. `options` apply to every server."""

    folder: Path
    servers: list[str] = field(default_factory=lambda: ["files"])
    options: Json = field(default_factory=dict)
    settings: Json = field(default_factory=dict)

    @property
    def file(self) -> Path:
        return self.folder / "gateway.json"

    @property
    def lock(self) -> Path:
        return self.folder / "gateway.json.lock.json"

    def offer(self, *tools: Json, server: str = "files", **more: Any) -> None:
        """Let a server offer this from now on."""
        file = self.folder / f"{server}.offer.json"
        new = file.with_suffix(".new")
        new.write_text(json.dumps({"tools": tools, **more}))
        new.replace(file)

    def build(self, **environ: str) -> Bridge:
        """Build the bridge of the settings."""
        self.write_settings()
        return build_from_settings(load(self.file, environ))

    def write_settings(self) -> None:
        """Write the settings file."""
        sources = [
            {
                "type": "mcp",
                "name": name,
                "command": sys.executable,
                "args": ["-I", "-S", str(SERVER), str(self.folder / f"{name}.offer.json")],
                **self.options,
            }
            for name in self.servers
        ]
        self.file.write_text(json.dumps({"sources": sources, **self.settings}))


async def list_tools(client: Client) -> dict[str, Any]:
    """Return the listed tools by name."""
    return {tool.name: tool for tool in (await client.list_tools(cache_mode="bypass")).tools}


async def call_tool(client: Client, name: str, **arguments: Any) -> Any:
    """Call a tool. Return the arguments received by the server, or the text of the error."""
    result = await client.call_tool(name, arguments)
    text = result.content[0].text  # type: ignore[union-attr]
    return text if result.is_error else json.loads(text)


async def wait_for_names(client: Client, *names: str, seconds: float = TIMEOUT) -> None:
    """Wait until exactly these tools are listed."""
    with anyio.fail_after(seconds):
        while set(await list_tools(client)) != set(names):  # noqa: ASYNC110 - what a client sees
            await anyio.sleep(0.02)


def fill_disk(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """Make the disk full. Tests run as root, and for root every folder is writable."""
    open_file = os.open

    def open_unless_full(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path).startswith(str(file.with_name(f".{file.name}."))):
            raise OSError(28, "No space left on device")
        return open_file(path, *arguments, **options)

    monkeypatch.setattr(os, "open", open_unless_full)
