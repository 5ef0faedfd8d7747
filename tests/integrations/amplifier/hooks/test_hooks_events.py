"""The standard events around a decision: approvals, messages to the user, and failures."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcp_bridge import ToolError
from mcp_bridge._engine.authoring import tool
from mcp_bridge._engine.pipeline import ToolLimits
from mcp_bridge.amplifier import HookResult
from tests.kits.constants import EVERY_ERA, TIMEOUT
from tests.kits.hooks.hooks_kit import HookedServer, ScriptedUser, ask, deny, get_texts, inject, open_client

APPROVALS = ("approval:required", "approval:granted", "approval:denied")
OPTIONS = ["Allow", "Deny"]


def list_event_names(server: HookedServer, *, only: tuple[str, ...] = APPROVALS) -> list[str]:
    """Return the received events in order."""
    return [event for event, _ in server.events if event in only]


@EVERY_ERA
@pytest.mark.parametrize("event", ["tool:pre", "tool:post"])
@pytest.mark.parametrize(("choice", "outcome"), [("Allow", "approval:granted"), ("Deny", "approval:denied")])
async def test_approval_events_have_the_question_and_the_outcome(
    mode: str, event: str, choice: str, outcome: str
) -> None:
    server, user = HookedServer(), ScriptedUser(choice)
    server.on(event, ask("Sure?", approval_options=OPTIONS))
    for name in APPROVALS:
        server.on(name)
    async with open_client(server, mode, user) as client:
        result = await client.call_tool("add", {"n": 1})
    assert bool(result.is_error) is (choice == "Deny")
    assert list_event_names(server) == ["approval:required", outcome]
    for data in (server.get_events("approval:required")[0], server.get_events(outcome)[0]):
        assert (data["event"], data["prompt"], data["options"]) == (event, "Sure?", OPTIONS)
        assert (data["tool_name"], data["tool_input"]) == ("add", {"n": 1})
        assert data["tool_call_id"]


async def test_there_are_no_approval_events_without_a_question(mode: str) -> None:
    server = HookedServer()
    for name in ("tool:pre", *APPROVALS):
        server.on(name)
    async with open_client(server, mode) as client:
        await client.call_tool("add", {"n": 1})
    assert list_event_names(server) == []


async def test_a_default_emits_approval_events_too(mode: str) -> None:
    for default, outcome in (("allow", "approval:granted"), ("deny", "approval:denied")):
        server = HookedServer()
        server.on("tool:pre", ask(approval_default=default))
        for name in APPROVALS:
            server.on(name)
        async with open_client(server, mode) as client:
            await client.call_tool("add", {"n": 1})
        assert list_event_names(server) == ["approval:required", outcome]


async def test_handlers_of_approval_events_cannot_decide_but_may_inject_texts(mode: str) -> None:
    server, user = HookedServer(), ScriptedUser("Allow")
    server.on("tool:pre", ask(approval_options=OPTIONS))
    server.on("approval:required", deny("not mine to say"))
    server.on("approval:granted", inject("A user has looked at this."))
    async with open_client(server, mode, user) as client:
        result = await client.call_tool("add", {"n": 1})
    assert not result.is_error
    assert get_texts(result)[-1] == "A user has looked at this."


@EVERY_ERA
@pytest.mark.parametrize(
    ("event", "decision"),
    [
        ("tool:pre", HookResult(action="continue", user_message="Mind it.")),
        ("tool:pre", deny("no", user_message="Mind it.", user_message_level="warning", user_message_source="guard")),
        ("tool:post", inject("x", user_message="Mind it.")),
    ],
)
async def test_a_message_to_the_user_is_an_event(mode: str, event: str, decision: HookResult) -> None:
    server = HookedServer()
    server.on(event, decision)
    server.on("user:notification", HookResult(action="continue", user_message="And this."))
    events: list[Any] = []

    async def record_message(params: Any) -> None:
        events.append(params.data)

    more: Any = {"log_level": "debug"} if mode != "legacy" else {}
    async with open_client(server, mode, logging_callback=record_message, **more) as client:
        await client.call_tool("add", {"n": 1})
    [data] = server.get_events("user:notification")
    level, source = decision.user_message_level, decision.user_message_source
    assert (data["message"], data["level"], data["source"]) == ("Mind it.", level, source)
    assert data["tool_name"] == "add"
    assert events == ["Mind it.", "And this."]


async def test_tool_error_has_the_result_under_all_keys(mode: str) -> None:
    server = HookedServer(tools={"hang": ToolLimits(timeout=0.2)})

    @tool(registry=server.registry)
    async def fail(how: str) -> str:
        """Fails."""
        raise ToolError("no such place") if how == "raise" else RuntimeError("why")

    @tool(registry=server.registry)
    async def hang() -> None:
        """Never answers."""
        await anyio.sleep_forever()

    server.on("tool:pre", lambda data: deny("not you") if data["tool_input"].get("how") == "deny" else None)
    server.on("tool:post")
    server.on("tool:error")
    with anyio.fail_after(TIMEOUT):
        async with open_client(server, mode) as client:
            for how in ("raise", "crash", "deny"):
                await client.call_tool("fail", {"how": how})
            await client.call_tool("hang", {})
    failures = server.get_events("tool:error")
    assert [data["error"]["type"] for data in failures] == ["tool_error", "internal_error", "denied", "timeout"]
    assert server.get_events("tool:post") == []
    for data in failures:
        values = {"success": False, "output": None, "error": {"message": data["error"]["message"]}}
        assert [data[key] for key in ("result", "tool_result", "tool_response")] == [values] * 3
