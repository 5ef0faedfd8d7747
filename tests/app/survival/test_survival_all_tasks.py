"""A tool that cancels all tasks of the event loop, as programs do at their end, cancels only third-party tasks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.client.server_process import Way
from tests.kits.survival.survival_kit import FIRST_WAY, WAYS, run_server

TOOLS = """
import asyncio
from mcp_bridge import tool

@tool
async def cancel_all() -> list[str]:
    "Cancel all tasks, and return their names."
    child = asyncio.create_task(asyncio.sleep(3600), name="child")
    await asyncio.sleep(0)
    tasks = asyncio.all_tasks()
    for task in tasks:
        task.cancel()
    await asyncio.wait([child])
    return sorted(task.get_name() for task in tasks)
"""
INNER = """
from mcp_bridge import tool

@tool
def inner() -> str:
    "Return a text."
    return "inner"
"""


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_tool_that_cancels_all_tasks_ends_neither_the_server_nor_other_calls(way: Way, tmp_path: Path) -> None:
    with run_server(way, tmp_path, TOOLS) as server:
        with server.keep_call_in_flight():
            assert server.get_text("cancel_all") == '["child"]'
        assert server.get_text("echo", text="still here") == "still here"
    assert "Traceback" not in server.stderr


@pytest.mark.parametrize("event_loop", ["asyncio", "uvloop"])
def test_the_tasks_of_a_gateway_and_of_the_page_are_not_cancelled(event_loop: str, tmp_path: Path) -> None:
    if event_loop == "uvloop":
        pytest.importorskip("uvloop")
    file = tmp_path / "inner_tools.py"
    file.write_text(INNER)
    inner = {"type": "mcp", "command": sys.executable, "args": ["-m", "mcp_bridge", "serve", str(file)]}
    sources = [{"type": "python", "path": "own_tools.py"}, {**inner, "name": "inner", "prefix": ""}]
    settings = {"sources": sources, "event_loop": event_loop, "http": {"page": True}}
    with run_server(FIRST_WAY, tmp_path, TOOLS, settings) as server:
        assert server.get_text("inner") == "inner"
        with server.keep_call_in_flight():
            assert server.get_text("cancel_all") == '["child"]'
        assert server.get_text("inner") == "inner"
