"""Shared by the visits: a report with a line per check, the command of a server, and a simulated user."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.client.stdio import StdioServerParameters

from tests.kits.constants import STATELESS

MODES = ("legacy", STATELESS)


class Report:
    """Prints a line per check, and counts the failed ones."""

    def __init__(self) -> None:
        self.failed = 0

    def check(self, what: str, value: Any, good: Callable[[Any], bool]) -> None:
        """Print one line."""
        ok = good(value)
        self.failed += not ok
        print(f"{'ok  ' if ok else 'FAIL'} {what}: {str(value)[:160]!r}")


class CommandUser:
    """A user who chooses the first option of questions with the text `allowed`, and the last option of all others."""

    def __init__(self, allowed: str) -> None:
        self.asked: list[str] = []
        self._allowed = allowed

    async def __call__(self, context: Any, params: Any) -> types.ElicitResult:
        self.asked.append(params.message)
        schema = params.requested_schema["properties"]
        (key,) = schema
        options = schema[key].get("enum") or [option["const"] for option in schema[key].get("oneOf", [])]
        choice = options[0] if self._allowed in params.message else options[-1]
        return types.ElicitResult(action="accept", content={key: choice})


def get_server_parameters(path: Path, *, folder: Path | str) -> StdioServerParameters:
    """Return the parameters of a server for a settings file, started in a folder."""
    command = ["-m", "mcp_bridge", "serve", str(path)]
    return StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ), cwd=folder)


def get_text(result: types.CallToolResult) -> str:
    """Return the texts of a result."""
    return " ".join(block.text for block in result.content if isinstance(block, types.TextContent))
