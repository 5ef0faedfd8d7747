"""ask_user: the question of a hook reaches the user in both eras, and the answer decides."""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from mcp_bridge import CallContext
from mcp_bridge._engine.authoring import tool
from mcp_bridge.amplifier import HookResult
from tests.kits.constants import EVERY_ERA, TIMEOUT
from tests.kits.hooks.hooks_kit import HookedServer, ScriptedUser, ask, get_code, get_texts, inject, modify, open_client


def create_asking_server(**options: Any) -> HookedServer:
    """Return a server with a hook that asks about every call."""
    server = HookedServer()
    server.on("tool:pre", ask(**options))
    server.on("tool:error")
    return server


async def wait_forever() -> None:
    """Never answer a question."""
    await anyio.sleep_forever()


@EVERY_ERA
async def test_a_call_that_the_user_allows_runs(mode: str) -> None:
    server, user = create_asking_server(prompt="Add?"), ScriptedUser("Allow")
    async with open_client(server, mode, user) as client:
        assert (await client.call_tool("add", {"n": 2})).structured_content == {"sum": 3}
    assert user.prompts == ["Add?"]
    assert user.asked[0].requested_schema["properties"]["value"]["enum"] == ["Allow", "Deny"]
    assert server.get_events("tool:error") == []


@EVERY_ERA
@pytest.mark.parametrize("choice", ["Deny", "decline", "cancel"])
async def test_a_call_that_the_user_does_not_allow_never_runs(mode: str, choice: str) -> None:
    server, user = create_asking_server(approval_default="allow", reason="it is late"), ScriptedUser(choice)
    async with open_client(server, mode, user) as client:
        result = await client.call_tool("add", {"n": 2})
    assert get_code(result) == "approval_declined"
    assert get_texts(result) == ["Tool 'add' was not approved: it is late"]
    assert server.calls == []
    assert [data["error"]["type"] for data in server.get_events("tool:error")] == ["approval_declined"]


@pytest.mark.parametrize(
    ("choice", "runs"),
    [("Allow once", True), ("allow always", True), ("Yes", True), ("Proceed", False), ("Never", False), ("", False)],
)
async def test_hooks_declare_options_and_only_known_ones_allow_the_call(mode: str, choice: str, runs: bool) -> None:
    options = ["Allow once", "allow always", "Yes", "Proceed", "Never", ""]
    server, user = create_asking_server(approval_options=options), ScriptedUser(choice)
    async with open_client(server, mode, user) as client:
        await client.call_tool("add", {"n": 2})
    assert user.asked[0].requested_schema["properties"]["value"]["enum"] == options
    assert bool(server.calls) is runs


@pytest.mark.parametrize(
    ("options", "choices"),
    [([], ["Allow", "Deny"]), (["Allow"], ["Allow"]), (["Allow", "Allow", "Deny"], ["Allow", "Deny"])],
)
async def test_unusual_options_are_still_asked(mode: str, options: Any, choices: list[str]) -> None:
    server, user = create_asking_server(approval_options=options), ScriptedUser("Allow")
    async with open_client(server, mode, user) as client:
        assert not (await client.call_tool("add", {"n": 2})).is_error
    field = user.asked[0].requested_schema["properties"]["value"]
    assert field.get("enum", [field.get("const")]) == choices


@pytest.mark.parametrize("options", [[["Allow"]], "Allow", [None]])
async def test_invalid_options_deny(mode: str, options: Any) -> None:
    server, user = HookedServer(), ScriptedUser("Allow")
    server.on("tool:pre", {"action": "ask_user", "approval_options": options})
    async with open_client(server, mode, user) as client:
        assert get_code(await client.call_tool("add", {"n": 2})) == "denied"
    assert (server.calls, user.asked) == ([], [])


async def test_options_that_the_model_did_not_validate_deny(mode: str) -> None:
    server, user = HookedServer(), ScriptedUser("Allow")
    server.on("tool:pre", HookResult.model_construct(action="ask_user", approval_options=[["Allow"]]))
    async with open_client(server, mode, user) as client:
        assert (await client.call_tool("add", {"n": 2})).is_error
    assert server.calls == []


@EVERY_ERA
@pytest.mark.parametrize("default", ["allow", "deny"])
async def test_the_default_applies_and_is_logged_if_the_client_cannot_ask(
    mode: str, default: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = create_asking_server(approval_default=default)
    async with open_client(server, mode) as client:
        result = await client.call_tool("add", {"n": 2})
    assert bool(server.calls) is (default == "allow")
    assert get_code(result) == (None if default == "allow" else "approval_declined")
    output = [record.getMessage() for record in caplog.records if record.name == "mcp_bridge.approvals"]
    words = "allowed" if default == "allow" else "denied"
    assert output == [
        f"tool 'add': {words} by default, because the user cannot be asked: "
        "This client cannot be asked: it has not declared the capability elicitation.form"
    ]


@EVERY_ERA
@pytest.mark.parametrize("default", ["allow", "deny"])
async def test_the_default_applies_after_a_timeout(mode: str, default: str, caplog: pytest.LogCaptureFixture) -> None:
    server, late = create_asking_server(approval_default=default, approval_timeout=0.05), anyio.Event()
    # In the stateless era, nothing runs before the late answer `Deny`.
    runs = default == "allow" and mode == "legacy"

    async def too_late() -> None:
        with anyio.move_on_after(0.5):
            await late.wait()

    async def user(context: Any, params: Any) -> Any:
        await too_late()
        return types.ElicitResult(action="accept", content={"value": "Deny" if default == "allow" else "Allow"})

    async with open_client(server, mode, user) as client:
        result = await client.call_tool("add", {"n": 2})
    assert (bool(server.calls), bool(result.is_error)) == (runs, not runs)
    assert "because the user did not answer in time" in caplog.text


async def test_an_approval_with_a_timeout_of_zero_is_the_default(mode: str) -> None:
    server, user = create_asking_server(approval_timeout=0, approval_default="allow"), ScriptedUser("Deny")
    async with open_client(server, mode, user) as client:
        assert not (await client.call_tool("add", {"n": 2})).is_error


@EVERY_ERA
@pytest.mark.parametrize("nonsense", [{"value": "Whatever"}, {}])
async def test_an_invalid_response_denies(mode: str, nonsense: Any) -> None:
    server, user = create_asking_server(approval_default="allow"), ScriptedUser(nonsense)
    async with open_client(server, mode, user) as client:
        assert get_code(await client.call_tool("add", {"n": 2})) == "approval_declined"
    assert (server.calls, len(user.asked)) == ([], 3)


async def test_the_default_applies_if_asking_the_client_fails(caplog: pytest.LogCaptureFixture) -> None:
    for default in ("allow", "deny"):
        server = create_asking_server(approval_default=default)

        async def broken(context: Any, params: Any) -> Any:
            raise MCPError(-32603, "the dialog is broken")

        async with open_client(server, "legacy", broken) as client:
            await client.call_tool("add", {"n": 2})
        assert bool(server.calls) is (default == "allow")
    assert "the dialog is broken" in caplog.text


async def test_the_questions_of_several_hooks_become_one_with_the_strictest_terms(mode: str) -> None:
    server, user = HookedServer(), ScriptedUser("Allow")
    server.on("tool:pre", ask("First?", approval_options=["Deny", "Allow", "Later"], approval_default="allow"))
    server.on("tool:pre", ask("Second?", approval_options=["Allow", "Deny"]))
    async with open_client(server, mode, user) as client:
        assert not (await client.call_tool("add", {"n": 2})).is_error
    assert user.prompts == ["First?\n\nSecond?"]
    assert user.asked[0].requested_schema["properties"]["value"]["enum"] == ["Deny", "Allow"]


@EVERY_ERA
async def test_the_user_is_asked_about_each_nested_call(mode: str) -> None:
    server, user = HookedServer(), ScriptedUser("Allow", "Deny")
    server.on("tool:pre", lambda data: ask(f"{data['tool_name']}?"))

    @tool(registry=server.registry)
    async def outer(ctx: CallContext) -> str:
        """Calls another."""
        return str((await ctx.invoke("add", {"n": 2})).code)

    async with open_client(server, mode, user) as client:
        assert get_texts(await client.call_tool("outer", {})) == ["approval_declined"]
    assert (user.prompts, server.calls) == (["outer?", "add?"], [])


@EVERY_ERA
async def test_deadlines_stop_and_concurrency_slots_are_free_while_the_user_is_asked(mode: str) -> None:
    server = HookedServer(timeout=4, concurrency=1, queue=0)
    server.on("tool:pre", lambda data: ask() if data["tool_name"] == "outer" or data["tool_input"].get("n") else None)
    requests: list[Any] = []

    @tool(registry=server.registry)
    async def outer(ctx: CallContext) -> str:
        """Calls another."""
        return str((await ctx.invoke("add", {"n": 2})).output)

    async def user(context: Any, params: Any) -> Any:
        requests.append(params)
        assert get_texts(await client.call_tool("say", {"text": "beside"})) == ["said beside"]
        await anyio.sleep(4.2)
        return types.ElicitResult(action="accept", content={"value": "Allow"})

    async with open_client(server, mode, user) as client:
        assert get_texts(await client.call_tool("outer", {})) == ["{'sum': 3}"]
    assert len(requests) == 2


@EVERY_ERA
async def test_a_call_that_is_cancelled_while_the_user_is_asked_does_not_run(mode: str) -> None:
    server, question_asked = create_asking_server(approval_default="allow"), anyio.Event()

    async def user(context: Any, params: Any) -> Any:
        question_asked.set()
        await wait_forever()

    async with open_client(server, mode, user) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "add", {"n": 2})
            with anyio.fail_after(TIMEOUT):
                await question_asked.wait()
            tasks.cancel_scope.cancel()
        assert (await client.list_tools()).tools
    assert (server.calls, server.get_events("tool:error")) == ([], [])


@EVERY_ERA
async def test_a_change_and_an_injected_text_remain_after_an_approval(mode: str) -> None:
    server, user = HookedServer(), ScriptedUser("Allow")
    server.on("tool:pre", ask(approval_default="deny"))
    server.on("tool:pre", modify(tool_input={"n": 40, "to": 2}))
    server.on("tool:pre", inject("It was rounded."))
    async with open_client(server, mode, user) as client:
        assert get_texts(await client.call_tool("add", {"n": 1})) == ['{"sum":42}', "It was rounded."]
