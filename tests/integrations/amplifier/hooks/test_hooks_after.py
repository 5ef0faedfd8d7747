"""tool:post and tool:error: changes of results by hooks, and the events of failures."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from mcp_bridge import CallContext, ToolEntry, ToolResult
from mcp_bridge._contracts.content import Image, Text
from mcp_bridge._contracts.errors import ToolError
from mcp_bridge._engine.authoring import tool
from mcp_bridge.amplifier import HookResult
from tests.kits.constants import EVERY_ERA, TIMEOUT
from tests.kits.hooks.hooks_kit import (
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

KEYS = ["result", "tool_result", "tool_response"]
SUM: Any = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
SECRET = "sesame-4711"


def create_server(answer: Any, output_schema: Any = None) -> HookedServer:
    """Return a server with a tool `t` that returns or raises this."""
    server = HookedServer()

    async def handler(data: Any) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    server.registry.register(ToolEntry("t", "Answers.", handler, {"type": "object"}, output_schema or {}))
    return server


async def call_tool(server: HookedServer, mode: str, user: Any = None) -> Any:
    """Call `t`, and return the result."""
    async with open_client(server, mode, user) as client:
        return await client.call_tool("t", {})


@EVERY_ERA
async def test_all_keys_of_the_result_have_it(mode: str) -> None:
    server = create_server({"sum": 3})
    server.on("tool:post", HookResult())
    assert (await call_tool(server, mode)).structured_content == {"sum": 3}
    [event] = server.get_events("tool:post")
    assert [event[key] for key in KEYS] == [{"success": True, "output": {"sum": 3}, "error": None}] * 3
    assert (event["tool_name"], event["tool_input"]) == ("t", {})


@pytest.mark.parametrize(
    ("key", "changed"),
    [
        ("result", {"success": True, "output": {"sum": 4}, "error": None}),
        ("tool_result", {"success": True, "output": {"sum": 4}}),
        ("tool_response", {"tool_call_id": "x", "output": {"sum": 4}, "is_error": False}),
        ("result", {"sum": 4}),
    ],
)
async def test_a_result_changed_under_any_key_is_used_whole_or_as_an_output(mode: str, key: str, changed: Any) -> None:
    server = create_server({"sum": 3}, SUM)
    server.on("tool:post", modify(**{key: changed}))
    result = await call_tool(server, mode)
    assert (result.structured_content, get_texts(result)) == ({"sum": 4}, ['{"sum":4}'])


async def test_an_equal_result_is_no_change(mode: str) -> None:
    server = create_server([Text("a"), Image(b"\x89PNG\r\n\x1a\n", "image/png")])
    server.on("tool:post", lambda data: HookResult(action="modify", data=data))
    result = await call_tool(server, mode)
    assert [block.type for block in result.content] == ["text", "image"]


@EVERY_ERA
async def test_a_changed_result_that_violates_the_schema_is_an_error_with_the_name_of_the_hook(mode: str) -> None:
    server = create_server({"sum": 3}, SUM)
    server.on("tool:post", HookResult(), name="watches")
    server.on("tool:post", modify(result={"sum": "[masked]"}), name="masks")
    server.on("tool:post", inject("It was masked."))
    server.on("tool:error")
    # The official client raises for a success without structured content.
    result = await call_tool(server, mode)
    assert get_code(result) == "invalid_output"
    error, output, injection = get_texts(result)
    assert "Output validation failed for tool 't'. The tool did run, but the hook 'masks' changed its result." in error
    assert "$.sum: expected type integer" in error
    assert (output, injection) == ('{"sum":"[masked]"}', "It was masked.")
    assert [data["error"]["type"] for data in server.get_events("tool:error")] == ["invalid_output"]


async def test_the_error_names_all_hooks_that_have_changed_the_result(mode: str) -> None:
    server = create_server({"sum": 3}, SUM)
    server.on("tool:post", modify(result={"sum": 4}), name="one")
    server.on("tool:post", modify(result={"sum": "five"}), name="two")
    assert "the hooks 'one', 'two' changed its result" in get_texts(await call_tool(server, mode))[0]


@pytest.mark.parametrize(
    ("first", "second"), [("result", "tool_result"), ("tool_result", "tool_response"), ("tool_response", "result")]
)
async def test_hooks_that_use_different_keys_of_the_result_see_each_others_changes(
    mode: str, first: str, second: str
) -> None:
    server = create_server("one two")

    def mask(key: str, word: str) -> Any:
        def answer(data: Any) -> HookResult:
            output = data[key]["output"].replace(word, "*")
            return HookResult(action="modify", data={**data, key: {**data[key], "output": output}})

        return answer

    server.on("tool:post", mask(first, "one"))
    server.on("tool:post", mask(second, "two"))
    server.on("tool:post")
    assert get_texts(await call_tool(server, mode)) == ["* *"]
    assert {server.get_events("tool:post")[2][key]["output"] for key in KEYS} == {"* *"}


def mask_secret(value: Any) -> Any:
    """Return the value without the secret, at any depth."""
    if isinstance(value, str):
        return value.replace(SECRET, "***")
    if isinstance(value, dict):
        return {key: mask_secret(item) for key, item in value.items()}
    return [mask_secret(item) for item in value] if isinstance(value, list) else value


class Model(BaseModel):
    text: str


@pytest.mark.parametrize(
    ("answer", "schema"),
    [
        (SECRET, None),
        ({"deep": [{"er": SECRET}]}, None),
        (Model(text=SECRET), None),
        (Text(SECRET), None),
        ([Text("x"), Text(SECRET)], None),
        (ToolResult(success=True, output={"a": SECRET}, content=[Text(SECRET)]), None),
        (ToolResult(success=True, output={"a": 1}, content=[Text(SECRET)]), None),
        (ToolResult(success=False, output=SECRET, error="failed"), None),
        (ToolResult(success=False, output=SECRET), None),
        (ToolResult(success=False, error=SECRET), None),
        (ToolResult(success=False, error={"message": SECRET, "type": "x"}, content=[Text(SECRET)]), None),
        ({"sum": SECRET}, SUM),
        (SECRET, SUM),
    ],
)
async def test_a_text_that_a_hook_removes_is_nowhere_in_the_result(mode: str, answer: Any, schema: Any) -> None:
    server = create_server(answer, schema)
    server.on("tool:post", lambda data: HookResult(action="modify", data=mask_secret(data)))
    result = await call_tool(server, mode)
    assert SECRET not in result.model_dump_json()
    assert "***" in result.model_dump_json()


@pytest.mark.parametrize("failed", [False, True])
async def test_replacing_the_output_drops_content_and_error_that_may_repeat_it(mode: str, failed: bool) -> None:
    server = create_server(
        ToolResult(success=not failed, output=SECRET, content=[Text(SECRET)], error=SECRET if failed else None)
    )
    server.on("tool:post", modify(result="[gone]"))
    result = await call_tool(server, mode)
    assert (get_texts(result), bool(result.is_error)) == (["[gone]"], failed)


async def test_unchanged_blocks_remain_next_to_changed_ones(mode: str) -> None:
    picture = Image(b"\x89PNG\r\n\x1a\n", "image/png", annotations={"priority": 0.5})
    server = create_server([picture, Text(SECRET)])
    server.on("tool:post", lambda data: HookResult(action="modify", data=mask_secret(data)))
    result = await call_tool(server, mode)
    assert [block.type for block in result.content] == ["image", "text"]
    assert result.content[0].annotations.priority == 0.5
    assert result.content[1].text == "***"


async def test_a_hook_may_turn_a_result_into_a_failure_and_back(mode: str) -> None:
    server = create_server("fine")
    server.on("tool:post", modify(result={"success": False, "output": None, "error": {"message": "not fine"}}))
    server.on("tool:error")
    result = await call_tool(server, mode)
    assert (bool(result.is_error), get_texts(result)) == (True, ["not fine"])
    assert len(server.get_events("tool:error")) == 1
    server = create_server(ToolResult(success=False, error="broken"))
    server.on("tool:post", modify(result={"success": True, "output": "fixed", "error": None}))
    server.on("tool:error")
    result = await call_tool(server, mode)
    assert (bool(result.is_error), get_texts(result), server.get_events("tool:error")) == (False, ["fixed"], [])


@pytest.mark.parametrize("odd", [{"success": True, "content": [7, {"type": "?"}]}, {1, 2}, object(), float("nan")])
async def test_an_unusual_change_becomes_a_valid_result(mode: str, odd: Any) -> None:
    server = create_server("fine")
    server.on("tool:post", modify(result=odd))
    async with open_client(server, mode) as client:
        assert "fine" not in str((await client.call_tool("t", {})).content)
        assert (await client.call_tool("t", {})).content is not None


async def test_a_result_that_a_hook_denies_does_not_reach_the_client(mode: str) -> None:
    server = create_server(SECRET)
    server.on("tool:post", deny("too much"))
    server.on("tool:error")
    result = await call_tool(server, mode)
    assert get_code(result) == "denied"
    assert get_texts(result) == ["The result of tool 't' was denied: too much"]
    assert [data["error"]["type"] for data in server.get_events("tool:error")] == ["denied"]
    assert SECRET not in str(server.get_events("tool:error"))


async def test_a_result_does_not_reach_the_client_if_a_hook_crashes_after_the_call(mode: str) -> None:
    server = create_server(SECRET)
    server.on("tool:post", lambda data: 1 / 0)
    result = await call_tool(server, mode)
    assert get_code(result) == "denied"
    assert SECRET not in str(result)


@EVERY_ERA
@pytest.mark.parametrize(("choice", "code"), [("Allow", None), ("Deny", "approval_declined")])
async def test_the_user_can_be_asked_about_a_result(mode: str, choice: str, code: str | None) -> None:
    server, user = create_server(SECRET), ScriptedUser(choice)
    server.on("tool:post", ask(None))
    result = await call_tool(server, mode, user)
    assert get_code(result) == code
    assert user.prompts == ["Return the result of the tool 't'?"]
    assert (SECRET in str(result)) is (code is None)


@pytest.mark.parametrize("answer", [ToolError("no such place", code="nowhere"), ToolResult(success=False, error="no")])
async def test_a_failure_emits_tool_error_and_only_a_returned_result_emits_tool_post(mode: str, answer: Any) -> None:
    server = create_server(answer)
    server.on("tool:post")
    server.on("tool:error", deny("never instead of the answer"))
    result = await call_tool(server, mode)
    returned = isinstance(answer, ToolResult)
    assert get_texts(result) == ["no" if returned else "no such place"]
    assert len(server.get_events("tool:post")) == (1 if returned else 0)
    [event] = server.get_events("tool:error")
    assert event["error"]["message"] == get_texts(result)[0]
    assert event["error"]["type"] == ("tool_error" if returned else "nowhere")


@pytest.mark.parametrize("raised", [RuntimeError(SECRET), SystemExit(SECRET), ExceptionGroup("g", [OSError(SECRET)])])
async def test_hooks_receive_an_unexpected_error_as_the_client_does(mode: str, raised: BaseException) -> None:
    server = create_server(raised)
    server.on("tool:error")
    result = await call_tool(server, mode)
    assert get_code(result) == "internal_error"
    [event] = server.get_events("tool:error")
    assert event["error"] == {"message": get_texts(result)[0], "type": "internal_error"}
    assert SECRET not in str(event)


async def test_a_tool_that_is_too_slow_is_an_error_for_hooks(mode: str) -> None:
    server = HookedServer(timeout=0.05)

    @tool(registry=server.registry)
    async def slow() -> str:
        """Never answers."""
        await anyio.sleep_forever()
        return ""

    server.on("tool:error", inject("Ask for less."))
    async with open_client(server, mode) as client:
        result = await client.call_tool("slow", {})
    assert get_code(result) == "timeout"
    assert get_texts(result)[1:] == ["Ask for less."]
    assert [data["error"]["type"] for data in server.get_events("tool:error")] == ["timeout"]


@EVERY_ERA
async def test_a_cancelled_call_emits_no_event_at_its_end(mode: str) -> None:
    server = HookedServer()
    has_started, has_ended = anyio.Event(), anyio.Event()

    @tool(registry=server.registry)
    async def waits(ctx: CallContext) -> None:
        """Waits."""
        has_started.set()
        try:
            await anyio.sleep_forever()
        finally:
            has_ended.set()

    for event in ("tool:post", "tool:error"):
        server.on(event)
    async with open_client(server, mode) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(client.call_tool, "waits", {})
        with anyio.fail_after(TIMEOUT):
            await has_started.wait()
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await has_ended.wait()
    assert server.events == []


def _make_loop() -> dict[str, Any]:
    loop: dict[str, Any] = {}
    loop["it"] = loop
    return loop


async def test_an_unreadable_result_of_a_hook_is_an_error_with_the_reason(mode: str) -> None:
    server = create_server({"sum": 3})
    server.on("tool:post", modify(tool_result=_make_loop()))
    server.on("tool:error", HookResult())
    result = await call_tool(server, mode)
    assert get_code(result) == "invalid_output"
    assert "a hook returned an unreadable result" in get_texts(result)[0]
    assert [event["error"]["type"] for event in server.get_events("tool:error")] == ["invalid_output"]
