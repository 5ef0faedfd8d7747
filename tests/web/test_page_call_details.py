"""The details of a call: its log messages, its exception for operators, and whether it waits or runs as a task."""

from __future__ import annotations

from typing import Any

import anyio

from mcp_bridge import CallContext
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._contracts.state import State
from mcp_bridge._contracts.tasks import TASKS
from mcp_bridge.tasks import TaskOptions, ToolTasks
from tests.kits.constants import ENVELOPE
from tests.kits.http.http_hosting import build_registry, make_entry, make_stateless_request
from tests.kits.web.web_kit import Json, PageReader, serve_page

TOKENS = {"alice": "token-of-alice", "carol": "token-of-carol"}


async def read_latest_call(page: PageReader) -> Json:
    call = (await page.read_state())["calls"][0]
    response = await page.http.get(f"/page/calls/{call['id']}")
    assert response.status_code == 200
    details: Json = response.json()
    assert details == call | {"logs": details["logs"], "exception": details["exception"]}
    return details


async def test_a_call_has_its_log_messages_of_every_level_without_secrets() -> None:
    async def work(data: Any, ctx: CallContext) -> None:
        await ctx.log("debug", f"signing in with {data['password']}", "shop.session")
        await ctx.log("info", {"step": 1, "token": "short"})
        await ctx.log("info", "key: very-secret-key")
        await ctx.log("info", "x" * 50_000)

    bridge = Bridge(build_registry(make_entry("work", work)))
    bridge.hide_secrets(["very-secret-key"])
    async with serve_page(bridge) as server, server.read() as page:
        await page.call_tool("work", password="hunter22")
        call = await read_latest_call(page)
    assert call["logs"] == [
        {"level": "debug", "data": "signing in with [secret]", "logger": "shop.session"},
        {"level": "info", "data": {"step": 1, "token": "[secret]"}, "logger": None},
        {"level": "info", "data": "key: [secret]", "logger": None},
        {"level": "info", "data": "(a message of more than 16 KiB)", "logger": None},
    ]


async def test_a_call_keeps_only_its_latest_log_messages() -> None:
    async def count(_: Any, ctx: CallContext) -> None:
        for number in range(150):
            await ctx.log("info", number)

    async with serve_page(build_registry(make_entry("count", count))) as server, server.read() as page:
        await page.call_tool("count")
        call = await read_latest_call(page)
    assert [line["data"] for line in call["logs"]] == list(range(50, 150))


async def test_the_operator_sees_the_exception_and_the_lines_of_the_author_but_no_secret() -> None:
    def break_down(data: Any) -> None:
        raise RuntimeError(f"no shelf for {data['password']} and very-secret-key")

    bridge = Bridge(build_registry(make_entry("break_down", break_down)))
    bridge.hide_secrets(["very-secret-key"])
    async with serve_page(bridge) as server, server.read() as page:
        result = await page.call_tool("break_down", password="hunter22")
        call = await read_latest_call(page)
    assert call["exception"].endswith("RuntimeError: no shelf for [secret] and [secret]")
    assert "in break_down" in call["exception"]
    # The frames of the bridge are left out.
    assert "pipeline.py" not in call["exception"]
    assert "no shelf" not in str(result)


async def test_other_principals_see_their_calls_without_the_exception() -> None:
    def break_down(_: Any) -> None:
        raise RuntimeError("the shelf has collapsed")

    async with (
        serve_page(build_registry(make_entry("break_down", break_down)), principals=TOKENS, operators=["carol"]) as it,
        it.read("token-of-alice") as alice,
        it.read("token-of-carol") as carol,
    ):
        await alice.call_tool("break_down")
        seen_by_alice = await read_latest_call(alice)
        seen_by_carol = await read_latest_call(carol)
        await carol.call_tool("break_down")
        (other_call, *_) = (await carol.read_state())["calls"]
        response = await alice.http.get(f"/page/calls/{other_call['id']}")
        missing = await alice.http.get("/page/calls/nonsense")
    assert seen_by_alice["exception"] is None
    assert "the shelf has collapsed" in seen_by_carol["exception"]
    assert (response.status_code, missing.status_code) == (404, 404)


async def test_a_call_that_waits_for_an_answer_is_asking() -> None:
    async def reserve(_: Any, ctx: CallContext) -> str:
        answer = await ctx.ask("Reserve it?")
        return "reserved" if answer else "not reserved"

    async with (
        serve_page(build_registry(make_entry("reserve", reserve))) as server,
        server.read() as page,
        page.follow(),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(page.call_tool, "reserve")
        question = await page.wait_for("question")
        await page.wait_for("call", lambda call: call["state"] == "asking")
        await page.post(f"questions/{question['id']}", action="accept", content={})
        call = await page.wait_for("call", lambda call: call["state"] == "ok")
    assert call["result"] == "reserved"


async def test_a_call_that_runs_as_a_task_is_marked_and_has_its_log() -> None:
    async def work(_: Any, ctx: CallContext) -> str:
        await ctx.log("info", "working")
        return "done"

    options = TaskOptions(tools={"*": ToolTasks(after=0)})
    bridge = Bridge(build_registry(make_entry("work", work)), state=State(tasks=options))
    async with serve_page(bridge) as server, server.read() as page, page.follow():
        request = make_stateless_request("tools/call", {"name": "work", "arguments": {}})
        capabilities = {"extensions": {TASKS: {}}}
        request["json"]["params"]["_meta"] = ENVELOPE | {"io.modelcontextprotocol/clientCapabilities": capabilities}
        result = (await page.http.post("/mcp", **request)).json()["result"]
        await page.wait_for("call", lambda call: call["state"] == "ok")
        task = await read_latest_call(page)
        request["json"]["params"]["_meta"] = ENVELOPE
        await page.http.post("/mcp", **request)
        call = await read_latest_call(page)
    assert result["resultType"] == "task"
    assert (task["is_task"], call["is_task"]) == (True, False)
    assert [line["data"] for line in task["logs"]] == ["working"]
