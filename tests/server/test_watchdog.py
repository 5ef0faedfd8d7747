"""The watchdog names a tool that blocks the event loop, and the duration."""

from __future__ import annotations

import logging
import re
import time
from typing import Any

import pytest

from mcp_bridge import ToolEntry, ToolRegistry
from mcp_bridge._server import watchdog
from mcp_bridge.testing import connect


async def test_the_log_names_the_tool_that_holds_the_loop_its_line_and_how_long(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watchdog, "INTERVAL", 0.02)
    monkeypatch.setattr(watchdog, "RESPONSE_TIMEOUT", 0.05)

    async def hold(data: Any) -> str:
        end = time.monotonic() + 60
        while "blocks the event loop" not in caplog.text and time.monotonic() < end:
            time.sleep(0.01)  # noqa: ASYNC251 - on purpose
        return "done"

    async def quick(data: Any) -> str:
        return "quick"

    registry = ToolRegistry()
    registry.register(ToolEntry("heavy", "Holds the loop.", hold))
    registry.register(ToolEntry("quick", "Does not.", quick))
    with caplog.at_level(logging.WARNING, "mcp_bridge.server"):
        async with connect(registry) as client:
            await client.call_tool("quick", {})
            assert caplog.text == ""
            await client.call_tool("heavy", {})
            while "blocked the event loop" not in caplog.text:
                await client.call_tool("quick", {})
    holds, slots = (record.getMessage() for record in caplog.records)
    assert re.fullmatch(r"'heavy' \(at .*test_watchdog\.py:\d+\) blocks the event loop: .*", holds)
    assert re.fullmatch(r"'heavy' \(at .*\) blocked the event loop for \d+\.\d seconds", slots)
