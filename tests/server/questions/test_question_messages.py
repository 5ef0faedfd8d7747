"""Progress and log messages of a call with questions: they go to the open round, and nowhere between two rounds."""

from __future__ import annotations

from typing import Any

import anyio

from mcp_bridge import CallContext, ToolRegistry
from mcp_bridge._engine.authoring import tool
from tests.client.stdio_client import StdioClient
from tests.kits.constants import HANDSHAKE, META_PREFIX, STATELESS
from tests.kits.questions.asking_kit import accept, get_text, serve_client
from tests.kits.waiting import wait_for_event

YES = {"key": accept()}


def make_meta(token: Any = None, level: str | None = None) -> dict[str, Any]:
    """Return the `_meta` of a round with these subscriptions."""
    meta = {"progressToken": token, f"{META_PREFIX}logLevel": level}
    return {key: value for key, value in meta.items() if value is not None}


def list_progress(client: StdioClient) -> list[tuple[Any, float]]:
    """Return the received progress notifications as pairs of token and value."""
    notifications = [
        message["params"] for message in client.received if message.get("method") == "notifications/progress"
    ]
    return [(message["progressToken"], message["progress"]) for message in notifications]


def list_logs(client: StdioClient) -> list[tuple[str, Any]]:
    """Return the received log messages as pairs of level and data."""
    notifications = [
        message["params"] for message in client.received if message.get("method") == "notifications/message"
    ]
    return [(message["level"], message["data"]) for message in notifications]


def build_chatty_registry() -> ToolRegistry:
    """Return a registry with a tool that reports progress and logs between three questions."""
    registry = ToolRegistry()

    @tool(registry=registry)
    async def chat(ctx: CallContext) -> str:
        """Report, log and ask."""
        for number in range(4):
            await ctx.report_progress(2 * number + 1, 8)
            await ctx.log("debug", f"detail {number}")
            await ctx.report_progress(2 * number + 2, 8)
            await ctx.log("error", f"trouble {number}")
            if number < 3:
                await ctx.ask("Go on?", key="key")
        return "done"

    return registry


async def test_each_round_receives_its_progress_and_log_messages_by_its_token_and_level() -> None:
    async with serve_client(build_chatty_registry()) as client:
        call = client.start_call("chat")
        await call.get_questions(meta=make_meta("one", "debug"))
        assert (list_progress(client), list_logs(client)) == (
            [("one", 1), ("one", 2)],
            [("debug", "detail 0"), ("error", "trouble 0")],
        )
        client.received.clear()
        await call.get_questions(YES, meta=make_meta(2, "error"))
        assert (list_progress(client), list_logs(client)) == ([(2, 3), (2, 4)], [("error", "trouble 1")])
        client.received.clear()
        await call.get_questions(YES)
        assert (list_progress(client), list_logs(client)) == ([], [])
        assert get_text(await call.get_result(YES, meta=make_meta("four"))) == "done"
        assert (list_progress(client), list_logs(client)) == ([("four", 7), ("four", 8)], [])


async def test_messages_come_before_the_end_of_their_round() -> None:
    async with serve_client(build_chatty_registry()) as client:
        call = client.start_call("chat")
        await call.get_questions(meta=make_meta("one", "debug"))
        await call.get_questions(YES, meta=make_meta("two", "debug"))
        kinds = [message.get("method", "end").rsplit("/", 1)[-1] for message in client.received]
        assert kinds == ["progress", "message", "progress", "message", "end"] * 2


async def test_progress_between_two_rounds_is_reported_in_the_next_round() -> None:
    registry, work, worked = ToolRegistry(), anyio.Event(), anyio.Event()

    @tool(registry=registry)
    async def wander(ctx: CallContext) -> str:
        """Works while it asks."""

        async def beside() -> None:
            await work.wait()
            await ctx.report_progress(5)
            await ctx.log("error", "between")
            worked.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(beside)
            await ctx.ask("Go on?", key="key")
        await ctx.report_progress(6)
        await ctx.log("error", "after")
        return "done"

    async with serve_client(registry) as client:
        call = client.start_call("wander")
        await call.get_questions(meta=make_meta("one", "debug"))
        work.set()
        await wait_for_event(worked)
        assert get_text(await call.get_result(YES, meta=make_meta("two", "debug"))) == "done"
        assert (list_progress(client), list_logs(client)) == ([("two", 6)], [("error", "after")])


async def test_each_round_counts_its_own_progress() -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def work(ctx: CallContext) -> str:
        """Works in two parts."""
        for values in ((5, 3, 8), (1, 1, 2)):
            for value in values:
                await ctx.report_progress(value)
            await ctx.ask("Go on?", key="key")
        return "done"

    async with serve_client(registry) as client:
        call = client.start_call("work")
        await call.get_questions(meta=make_meta("one"))
        await call.get_questions(YES, meta=make_meta("two"))
        assert list_progress(client) == [("one", 5), ("one", 8), ("two", 1), ("two", 2)]
        assert get_text(await call.get_result(YES)) == "done"


async def test_the_context_has_the_id_of_the_current_request() -> None:
    registry, observations = ToolRegistry(), []

    @tool(registry=registry)
    async def look(ctx: CallContext) -> str:
        """Looks at its context."""
        observations.append((ctx.request_id, ctx.meta.get("round"), ctx.protocol_version))
        await ctx.ask("Go on?", key="key")
        observations.append((ctx.request_id, ctx.meta.get("round"), ctx.protocol_version))
        return "done"

    async with serve_client(registry) as client:
        call = client.start_call("look")
        first = await call.send(meta={"round": 1})
        await call.receive(first)
        second = await call.send(YES, meta={"round": 2})
        await call.receive(second)
    assert observations == [(str(first), 1, STATELESS), (str(second), 2, STATELESS)]


async def test_in_the_handshake_era_all_questions_belong_to_one_request() -> None:
    async with serve_client(build_chatty_registry(), version=HANDSHAKE) as client:
        await client.request("logging/setLevel", {"level": "error"})
        call = {"name": "chat", "arguments": {}}
        number = await client.send_request("tools/call", call, meta={"progressToken": "one"})
        for _ in range(3):
            await client.respond(await client.receive_request(), result=accept())
        assert get_text((await client.receive_response(number))["result"]) == "done"
        assert list_progress(client) == [("one", value) for value in range(1, 9)]
        assert list_logs(client) == [("error", f"trouble {part}") for part in range(4)]
