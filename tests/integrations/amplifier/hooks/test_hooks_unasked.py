"""The error of a call without an approval, because no user could be asked or none answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._settings import load
from mcp_bridge.testing import connect
from tests.kits.constants import EVERY_ERA
from tests.kits.hooks.hooks_kit import HookedServer, ask, get_code, get_texts, open_client

MODULES = """
from mcp_bridge.amplifier import HookResult, ToolResult


class Add:
    name, description = "add", "Adds."

    async def execute(self, input):
        return ToolResult(output="added")


async def mount(coordinator, config):
    await coordinator.mount("tools", Add())
    coordinator.hooks.register("tool:pre", lambda event, data: HookResult(action="ask_user", reason="it is late"))
"""
UNABLE = "No user could be asked: the client does not support elicitation."


@EVERY_ERA
async def test_a_client_that_cannot_ask_gets_advice(mode: str) -> None:
    server = HookedServer()
    server.on("tool:pre", ask())
    async with open_client(server, mode) as client:
        result = await client.call_tool("add", {"n": 2})
    advice = "Use a client that supports elicitation, and retry the call."
    assert (get_code(result), get_texts(result)) == (
        "approval_declined",
        [f"Tool 'add' was not approved. {UNABLE} {advice}"],
    )


@pytest.mark.parametrize(
    ("local", "advice"),
    [
        (
            "true",
            "The user can run `mcp-bridge approvals s.yaml` where the server runs, or use a client that supports ",
        ),
        (
            "false",
            "Use a client that supports elicitation, or set `approvals.terminal: true` and run `mcp-bridge approvals ",
        ),
    ],
)
async def test_the_advice_follows_the_settings(local: str, advice: str, tmp_path: Path) -> None:
    # Each case has its own module name, because a name that was imported from another file is rejected.
    (tmp_path / f"asks_{local}.py").write_text(MODULES)
    (tmp_path / "s.yaml").write_text(
        f"approvals: {{terminal: {local}, remember: false}}\n"
        "sources:\n  - type: amplifier\n    plan:\n      tools:\n"
        f"        - {{module: asks_{local}, source: asks_{local}.py}}\n"
    )
    async with connect(build_from_settings(load(tmp_path / "s.yaml", {}))) as client:
        [text] = get_texts(await client.call_tool("add", {}))
    assert text.startswith(f"Tool 'add' was not approved: it is late. {UNABLE} {advice}")


@EVERY_ERA
async def test_the_error_after_a_timeout_names_the_time(mode: str) -> None:
    server = HookedServer()
    server.on("tool:pre", ask(approval_timeout=0.05))

    async def user(context: Any, params: Any) -> Any:
        await anyio.sleep(0.5)
        return types.ElicitResult(action="cancel")

    async with open_client(server, mode, user) as client:
        [text] = get_texts(await client.call_tool("add", {"n": 2}))
    assert text == "Tool 'add' was not approved. No user answered within 0.05 seconds. Retry the call to ask again."


async def test_the_clients_own_error_is_the_reason() -> None:
    server = HookedServer()
    server.on("tool:pre", ask())

    async def broken(context: Any, params: Any) -> Any:
        raise MCPError(-32603, "the dialog is broken")

    async with open_client(server, "legacy", broken) as client:
        [text] = get_texts(await client.call_tool("add", {"n": 2}))
    assert "No user could be asked: The client could not answer: the dialog is broken. Use a client that" in text
