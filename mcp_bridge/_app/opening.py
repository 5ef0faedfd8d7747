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
    """Run the tools of a file while the block runs.

    `bridge.registry.dispatch` calls them under the policies of the settings. `invoke` and `ainvoke` of the registry
    call them directly.

    Args:
        path: A settings file, a Python file or a folder of Python files.

    Raises:
        ConfigError: The settings cannot be used.
        SourceError: No source could publish anything. Otherwise `bridge.problems` lists what was not published.

    >>> import anyio
    >>> from mcp_bridge import CallContext, ToolCall
    >>> Path("tools.py").write_text('''
    ... from mcp_bridge import tool
    ... @tool
    ... def double(number: int) -> int:
    ...     return 2 * number
    ... ''')
    89
    >>> async def call_double() -> int:
    ...     async with open_bridge("tools.py") as bridge:
    ...         call = ToolCall(id="1", name="double", arguments={"number": 21})
    ...         return (await bridge.registry.dispatch(call, CallContext())).output
    >>> anyio.run(call_double)
    42
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
