"""For tests of the source `command`: settings with commands, and a bridge with a client."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from mcp.client import Client

from mcp_bridge._app.bridge import Bridge
from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._settings import load
from mcp_bridge.testing import connect

Json = dict[str, Any]
PROGRAM = [sys.executable, "-I", "-S", str(Path(__file__).with_name("program.py"))]


def write_tool(*words: Any, **options: Any) -> Json:
    """Return the entry of a command with the program of this kit."""
    return {"command": [*PROGRAM, *words], **options}


def build_bridge(folder: Path, tools: Json, settings: Json | None = None, **options: Any) -> Bridge:
    """Build a bridge over a settings file with these commands."""
    file = folder / "settings.json"
    file.write_text(json.dumps({"sources": [{"type": "command", "tools": tools, **options}], **(settings or {})}))
    return build_from_settings(load(file, os.environ))


@contextlib.asynccontextmanager
async def connect_commands(
    folder: Path, tools: Json, settings: Json | None = None, client: Json | None = None, **options: Any
) -> AsyncIterator[Client]:
    """Connect a client to these commands."""
    async with connect(build_bridge(folder, tools, settings, **options), **(client or {})) as connected:
        yield connected
