"""Runs the tools of a file inside a program, without serving them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

from mcp_bridge._app.bridge import Bridge
from mcp_bridge._app.factory import build_from_file, build_from_settings
from mcp_bridge._settings.documents.document import SUFFIXES


@contextlib.asynccontextmanager
async def open_bridge(path: str | Path) -> AsyncIterator[Bridge]:
    """Run the tools of a file while the block runs. `bridge.registry` calls them under the policies of the settings.

    Args:
        path: A settings file, a Python file or a folder of Python files.

    Raises:
        ConfigError: The settings cannot be used.
        SourceError: No source could publish anything. Otherwise `bridge.problems` lists what was not published.
    """
    file = Path(path)
    if file.suffix.lower() in SUFFIXES:
        from mcp_bridge._settings import load

        bridge = build_from_settings(load(file, os.environ))
    else:
        bridge = build_from_file(file)
    async with bridge.run_sources():
        await bridge.wait_until_started()
        yield bridge
