"""Errors of a tool renamed by the settings never contain its original name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._settings import load
from mcp_bridge.testing import connect

CRASHES = """
import os, signal
from mcp_bridge import tool


@tool
def original() -> str:
    os.kill(os.getpid(), signal.SIGKILL)
"""
PROVIDES = """
from mcp_bridge.xaibo import Tool, {error}


class Provider:
    async def list_tools(self):
        return [Tool(name="original", description="It.")]

    async def execute_tool(self, tool_name, parameters):
        raise {error}()
"""
LANGCHAIN = '''
from langchain_core.tools import tool
from pydantic import BaseModel, field_validator


class Even(BaseModel):
    number: int

    @field_validator("number")
    def check(cls, number):
        if number % 2:
            raise ValueError("it is odd")
        return number


@tool(args_schema=Even)
def original(number: int) -> int:
    """It."""
    return number
'''


async def get_error(folder: Path, source: dict[str, Any], code: str, arguments: dict[str, Any]) -> str:
    """Return the error of a call to a source with the tool `original`, published as `renamed`."""
    # No other test imports this name.
    module = f"{folder.name}.py"
    (folder / module).write_text(code)
    settings = {"sources": [{**source, "alias": {"original": "renamed"}}]}
    (folder / "bridge.json").write_text(json.dumps(settings).replace("MODULE.py", module))
    async with connect(build_from_settings(load(folder / "bridge.json", {}))) as client:
        result = await client.call_tool("renamed", arguments)
    assert result.is_error
    return result.content[0].text


async def test_a_crash_in_a_worker_is_that_of_the_published_tool(tmp_path: Path) -> None:
    source = {"type": "python", "path": "MODULE.py", "isolation": "process"}
    message = await get_error(tmp_path, source, CRASHES, {})
    assert message.startswith("Tool 'renamed' was ended by SIGKILL")


@pytest.mark.parametrize("error", ["ToolError", "ToolNotFoundError", "ToolExecutionError", "ToolParameterError"])
async def test_an_error_of_a_provider_without_text_names_no_tool(tmp_path: Path, error: str) -> None:
    source = {"type": "xaibo", "provider": "MODULE.py:Provider"}
    message = await get_error(tmp_path, source, PROVIDES.format(error=error), {})
    assert message
    assert "original" not in message


async def test_invalid_arguments_of_a_tool_of_a_framework_name_no_other_tool(tmp_path: Path) -> None:
    source = {"type": "python", "path": "MODULE.py"}
    message = await get_error(tmp_path, source, LANGCHAIN, {"number": 1})
    assert message.startswith("Input validation failed. Fix the arguments and retry.\n- number: ")
    assert "original" not in message
