"""prompt:submit: hooks decide about the messages of a prompt before the client gets them, in both eras."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from mcp_bridge import Image, Message, prompt
from tests.kits.constants import EVERY_ERA
from tests.kits.hooks.hooks_kit import HookedServer, ScriptedUser, ask, deny, inject, modify, open_client

PICTURE = Image(b"\x89PNG\r\n\x1a\n", "image/png")


def create_server(*, fails: bool = False) -> HookedServer:
    """Create a server with prompts."""
    server = HookedServer()
    server.hooks._fail_closed |= {"prompt:submit"}

    @prompt(registry=server.registry)
    def review(code: str, depth: str = "all") -> Any:
        """Asks for a review."""
        server.calls.append(code)
        if fails:
            raise ValueError("why")
        return [f"Review {code}.", Message("I will.", "assistant"), PICTURE]

    return server


async def get_prompt(client: Any, **arguments: str) -> list[tuple[str, str]]:
    """Return the role and the text of each message."""
    output = (await client.get_prompt("review", arguments or {"code": "x"})).messages
    return [(block.role, getattr(block.content, "text", block.content.type)) for block in output]


MESSAGES = [("user", "Review x."), ("assistant", "I will."), ("user", "image")]


@EVERY_ERA
async def test_hooks_receive_the_text_the_messages_and_the_arguments_of_a_prompt(mode: str) -> None:
    server = create_server()
    server.on("prompt:submit")
    async with open_client(server, mode) as client:
        assert await get_prompt(client, code="x", depth="top") == MESSAGES
    [event] = server.get_events("prompt:submit")
    assert event["prompt_name"] == "review"
    assert event["arguments"] == {"code": "x", "depth": "top"}
    assert event["prompt"] == "Review x.\n\nI will."
    assert [message["role"] for message in event["messages"]] == ["user", "assistant", "user"]
    assert event["messages"][0]["content"] == {"type": "text", "text": "Review x."}


@EVERY_ERA
async def test_a_prompt_may_be_denied(mode: str) -> None:
    server = create_server()
    server.on("prompt:submit", lambda data: deny("no code") if "secret" in data["prompt"] else None)
    async with open_client(server, mode) as client:
        assert await get_prompt(client) == MESSAGES
        with pytest.raises(MCPError, match="Prompt 'review' was denied: no code") as caught:
            await get_prompt(client, code="secret")
    assert caught.value.error.data == {"name": "review", "code": "denied"}


async def test_a_hook_that_crashes_denies_a_prompt(mode: str) -> None:
    server = create_server()
    server.on("prompt:submit", lambda data: 1 / 0)
    async with open_client(server, mode) as client:
        with pytest.raises(MCPError, match="Prompt 'review' was denied: The hook 'handler' failed"):
            await get_prompt(client)


async def test_a_changed_text_replaces_all_messages(mode: str) -> None:
    server = create_server()
    server.on("prompt:submit", modify(prompt="[gone]"))
    async with open_client(server, mode) as client:
        assert await get_prompt(client) == [("user", "[gone]")]


async def test_changed_messages_replace_the_prompt(mode: str) -> None:
    def change(data: dict[str, Any]) -> Any:
        first, *others_of_prompt = data["messages"]
        return modify(
            messages=[{**first, "content": {"type": "text", "text": "***"}}, *others_of_prompt], prompt="***"
        )(data)

    server = create_server()
    server.on("prompt:submit", change)
    async with open_client(server, mode) as client:
        assert await get_prompt(client) == [("user", "***"), *MESSAGES[1:]]


@pytest.mark.parametrize("odd", [[7, {"role": "system", "content": [1]}, {}], [], {"a": 1}, "text"])
async def test_unusual_changes_of_messages_become_valid_messages(mode: str, odd: Any) -> None:
    server = create_server()
    server.on("prompt:submit", modify(messages=odd))
    async with open_client(server, mode) as client:
        output = await get_prompt(client)
    if isinstance(odd, list):
        assert [role for role, _ in output] == ["user"] * len(odd)
    else:
        assert output == MESSAGES


@pytest.mark.parametrize(("role", "problem"), [("system", "user"), ("user", "user"), ("assistant", "assistant")])
async def test_an_injected_text_is_one_more_message(mode: str, role: str, problem: str) -> None:
    server = create_server()
    server.on("prompt:submit", inject("Be kind.", context_injection_role=role))
    async with open_client(server, mode) as client:
        assert await get_prompt(client) == [*MESSAGES, (problem, "Be kind.")]


@EVERY_ERA
@pytest.mark.parametrize(("choice", "allowed"), [("Allow", True), ("Deny", False)])
async def test_the_user_can_be_asked_about_a_prompt(mode: str, choice: str, allowed: bool) -> None:
    server, user = create_server(), ScriptedUser(choice)
    server.on("prompt:submit", ask(None, approval_options=["Allow", "Deny"]))
    for event in ("approval:required", "approval:granted", "approval:denied"):
        server.on(event)
    async with open_client(server, mode, user) as client:
        if allowed:
            assert await get_prompt(client) == MESSAGES
        else:
            with pytest.raises(MCPError, match="Prompt 'review' was not approved"):
                await get_prompt(client)
    assert user.prompts == ["Use the prompt 'review'?"]
    assert [event for event, _ in server.events[1:]] == [
        "approval:required",
        "approval:granted" if allowed else "approval:denied",
    ]
    assert server.events[1][1]["prompt_name"] == "review"


async def test_a_prompt_that_fails_is_not_submitted(mode: str) -> None:
    server = create_server(fails=True)
    server.on("prompt:submit")
    async with open_client(server, mode) as client:
        with pytest.raises(MCPError, match="internal error"):
            await get_prompt(client)
    assert server.get_events("prompt:submit") == []


async def test_prompts_emit_no_events_of_tools(mode: str) -> None:
    server = create_server()
    for event in ("tool:pre", "tool:post", "prompt:submit"):
        server.on(event)
    async with open_client(server, mode) as client:
        await get_prompt(client)
        assert [event for event, _ in server.events] == ["prompt:submit"]
        await client.call_tool("add", {"n": 1})
    assert [event for event, _ in server.events] == ["prompt:submit", "tool:pre", "tool:post"]
