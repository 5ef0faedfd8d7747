"""tool:pre: the decisions of hooks about a call before it runs."""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as types
import pytest

from mcp_bridge.amplifier import HookResult
from tests.kits.constants import EVERY_ERA, STATELESS
from tests.kits.hooks.hooks_kit import (
    LOGS,
    HookedServer,
    ScriptedUser,
    ask,
    deny,
    get_code,
    get_texts,
    inject,
    modify,
    open_client,
)


@EVERY_ERA
async def test_a_hook_receives_the_call_and_the_call_continues(mode: str) -> None:
    server = HookedServer()
    server.on("tool:pre", HookResult(action="continue"))
    async with open_client(server, mode) as client:
        result = await client.call_tool("add", {"n": 2})
    assert result.structured_content == {"sum": 3}
    [event] = server.get_events("tool:pre")
    assert (event["tool_name"], event["tool_input"]) == ("add", {"n": 2})
    assert event["tool_call_id"]
    assert "timestamp" in event


async def test_a_denied_call_does_not_run_and_its_client_gets_the_reason(mode: str) -> None:
    server = HookedServer()
    server.on("tool:pre", deny("not on Sundays"))
    server.on("tool:post")
    server.on("tool:error")
    async with open_client(server, mode) as client:
        result = await client.call_tool("add", {"n": 2})
    assert get_code(result) == "denied"
    assert get_texts(result) == ["Tool 'add' was denied: not on Sundays"]
    assert server.calls == server.get_events("tool:post") == []
    [error] = server.get_events("tool:error")
    assert error["error"] == {"message": "Tool 'add' was denied: not on Sundays", "type": "denied"}


async def test_a_denial_skips_the_remaining_handlers(mode: str) -> None:
    server, user = HookedServer(), ScriptedUser("Allow")
    server.on("tool:pre", ask(), priority=1)
    server.on("tool:pre", modify(tool_input={"n": 7}), priority=2)
    server.on("tool:pre", deny("no"), priority=3)
    server.on("tool:pre", inject("never read"), priority=4)
    async with open_client(server, mode, user) as client:
        assert get_code(await client.call_tool("add", {"n": 2})) == "denied"
    assert (len(server.get_events("tool:pre")), user.asked, server.calls) == (3, [], [])


async def test_the_tool_and_later_hooks_get_changed_arguments(mode: str) -> None:
    server = HookedServer()
    server.on("tool:pre", modify(tool_input={"n": 5}))
    server.on("tool:pre")
    server.on("tool:post")
    async with open_client(server, mode) as client:
        result = await client.call_tool("add", {"n": 2, "to": 9})
    assert result.structured_content == {"sum": 6}
    assert server.calls == [{"n": 5, "to": 1}]
    assert [data["tool_input"] for data in (server.get_events("tool:pre")[1], *server.get_events("tool:post"))] == [
        {"n": 5}
    ] * 2


@pytest.mark.parametrize("arguments", [{"n": "five"}, {}, None, ["n"], {"n": {1, 2}}])
async def test_invalid_arguments_of_a_hook_reach_neither_the_tool_nor_the_user(mode: str, arguments: Any) -> None:
    server, user = HookedServer(), ScriptedUser("Allow")
    server.on("tool:pre", modify(tool_input=arguments))
    server.on("tool:pre", ask())
    server.on("tool:error")
    async with open_client(server, mode, user) as client:
        result = await client.call_tool("add", {"n": 2})
    assert get_code(result) == "invalid_arguments"
    assert "A hook changed the arguments" in get_texts(result)[0]
    assert (server.calls, user.asked) == ([], [])
    assert [data["error"]["type"] for data in server.get_events("tool:error")] == ["invalid_arguments"]


async def test_arguments_that_differ_only_by_type_are_changed(mode: str) -> None:
    server = HookedServer()
    server.on("tool:pre", modify(tool_input={"text": "2"}))
    async with open_client(server, mode) as client:
        assert get_texts(await client.call_tool("say", {"text": "two"})) == ["said 2"]


async def test_hooks_receive_no_call_with_invalid_arguments(mode: str) -> None:
    server, user = HookedServer(), ScriptedUser("Allow")
    server.on("tool:pre", ask())
    async with open_client(server, mode, user) as client:
        assert get_code(await client.call_tool("add", {"n": "x"})) == "invalid_arguments"
    assert (server.events, user.asked, server.calls) == ([], [], [])


async def test_injected_text_follows_the_result_for_the_model_only(mode: str) -> None:
    server = HookedServer()
    server.on("tool:pre", inject("Mind the gap."))
    server.on("tool:post", inject("And the step."))
    async with open_client(server, mode) as client:
        result = await client.call_tool("add", {"n": 2})
    assert result.structured_content == {"sum": 3}
    assert get_texts(result) == ['{"sum":3}', "Mind the gap.", "And the step."]
    assert [block.annotations and block.annotations.audience for block in result.content] == [
        None,
        ["assistant"],
        ["assistant"],
    ]


async def test_injected_text_follows_a_failure_too_and_nothing_appears_twice(mode: str) -> None:
    server = HookedServer()
    server.on("tool:pre", inject("Ask for help."))
    server.on("tool:pre", lambda data: deny("no") if data["tool_name"] == "say" else None)
    async with open_client(server, mode) as client:
        assert get_texts(await client.call_tool("say", {"text": "x"})) == ["Tool 'say' was denied: no", "Ask for help."]


@EVERY_ERA
@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
async def test_a_change_remains_with_a_question_and_with_an_injected_text(mode: str, order: tuple[int, int]) -> None:
    server, user = HookedServer(), ScriptedUser("Allow")
    server.on("tool:pre", modify(tool_input={"n": 5}), priority=order[0])
    server.on("tool:pre", ask(), priority=order[1])
    server.on("tool:pre", inject("Read this."), priority=order[1])
    async with open_client(server, mode, user) as client:
        result = await client.call_tool("add", {"n": 2})
    assert get_texts(result) == ['{"sum":6}', "Read this."]
    assert user.prompts == ["Sure?"]


async def test_a_hook_that_raises_denies_without_showing_its_error(mode: str) -> None:
    server = HookedServer()
    server.on("tool:pre", lambda data: data["no such"])
    async with open_client(server, mode) as client:
        result = await client.call_tool("add", {"n": 2})
    assert get_code(result) == "denied"
    assert "no such" not in get_texts(result)[0]
    assert server.calls == []


async def test_a_hook_that_hangs_denies(mode: str) -> None:
    server = HookedServer(hook_timeout=0.05)

    async def hang(event: str, data: Any) -> None:
        await anyio.sleep_forever()

    server.hooks.register("tool:pre", hang)
    async with open_client(server, mode) as client:
        assert get_code(await client.call_tool("add", {"n": 2})) == "denied"
    assert server.calls == []


@EVERY_ERA
async def test_messages_to_the_user_are_in_the_clients_log(mode: str) -> None:
    server, events = HookedServer(), []
    server.on("tool:pre", HookResult(user_message="looking", user_message_level="warning", user_message_source="guard"))
    server.on("tool:post", HookResult(user_message="looked"))
    server.on("tool:error", HookResult(user_message="failed", user_message_level="error"))
    server.on("tool:post", lambda data: deny("enough", user_message="stop") if data["tool_name"] == "say" else None)

    async def listen(params: types.LoggingMessageNotificationParams) -> None:
        events.append((params.level, params.data, params.logger))

    async with open_client(server, mode, logging_callback=listen) as client:
        meta: Any = LOGS if mode == STATELESS else None
        await client.call_tool("add", {"n": 2}, meta=meta)
        await client.call_tool("say", {"text": "x"}, meta=meta)
    assert events == [
        ("warning", "looking", "guard"),
        ("info", "looked", None),
        ("warning", "looking", "guard"),
        ("info", "looked\nstop", None),
        ("error", "failed", None),
    ]


async def test_hooks_cannot_change_data_in_place(mode: str) -> None:
    server = HookedServer()

    def spoil(data: Any) -> None:
        data["tool_input"]["n"] = 100
        data.setdefault("result", {})["output"] = "spoilt"

    for event in ("tool:pre", "tool:post"):
        server.on(event, spoil)
        server.on(event)
    async with open_client(server, mode) as client:
        assert (await client.call_tool("add", {"n": 2})).structured_content == {"sum": 3}
    assert server.get_events("tool:pre")[1]["tool_input"] == server.get_events("tool:post")[1]["tool_input"] == {"n": 2}
    assert server.get_events("tool:post")[1]["result"]["output"] == {"sum": 3}
