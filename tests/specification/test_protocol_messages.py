"""Progress, log messages and cancellation: what belongs to one request, in both eras."""

from __future__ import annotations

import json
from typing import Any

from mcp_types import LoggingMessageNotificationParams

from tests.kits.constants import META_PREFIX
from tests.kits.protocol.protocol_http import HttpWire
from tests.kits.protocol.protocol_manifest import proves
from tests.kits.protocol.protocol_tools import SECRET
from tests.kits.protocol.protocol_ways import (
    EVERY_TRANSPORT,
    HANDSHAKE_ONLY,
    STATELESS_ONLY,
    TRANSPORTS,
    Connected,
    over,
)
from tests.kits.protocol.protocol_wire import Json, Wire, beside

LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LOG = "notifications/message"
PROGRESS = "notifications/progress"


async def opted_in(wire: Wire, level: str) -> Json:
    """Ask for log messages from this level on, in this era's way; what to put into `_meta`."""
    if wire.stateless:
        return {f"{META_PREFIX}logLevel": level}
    await wire.result("logging/setLevel", {"level": level})
    return {}


@proves("utilities/progress-token", "utilities/progress-increases")
@over("memory", "http")
async def test_progress_is_told_under_the_requests_token_and_grows(connected: Connected) -> None:
    values = {"values": [1, 1, 0.5, 2, 3.5]}
    async with connected.wire() as wire:
        for token in ("a text", 7, 0):
            await wire.call("steps", values, meta={"progressToken": token})
            told = [each["params"] for each in wire.notifications(PROGRESS) if each["params"]["progressToken"] == token]
            assert [params["progress"] for params in told] == [1, 2, 3.5]
            assert all(type(params["progressToken"]) is type(token) for params in told)
            assert (told[0]["total"], told[0]["message"]) == (3.5, "at 1.0")
        before = len(wire.notifications())
        await wire.call("steps", values)
        assert len(wire.notifications()) == before == 9


@proves("utilities/progress-stops")
@over("memory", "http")
async def test_progress_and_log_messages_stop_at_the_end_of_a_request(connected: Connected) -> None:
    async with connected.wire() as wire:
        opted = await opted_in(wire, "debug")
        await wire.call("keep", meta={"progressToken": "kept", **opted})
        assert (await wire.call("use_kept"))["content"][0]["text"] == "used"
        await wire.result("tools/list")
        assert [each["params"]["progress"] for each in wire.notifications()] == [1]


@proves("utilities/log-level", "utilities/log-messages")
async def test_log_messages_are_at_or_above_the_level_that_was_asked_for(connected: Connected) -> None:
    async with connected.wire() as wire:
        for level in ("debug", "warning", "emergency"):
            start = len(wire.notifications(LOG))
            await wire.call("say", {"levels": LEVELS}, meta=await opted_in(wire, level))
            told = [each["params"] for each in wire.notifications(LOG)[start:]]
            assert [params["level"] for params in told] == LEVELS[LEVELS.index(level) :]
            for params in told:
                LoggingMessageNotificationParams.model_validate(params)
                assert (params["logger"], params["data"]["text"]) == ("tests", f"ünï {params['level']}")


@proves("utilities/log-on-request")
@STATELESS_ONLY
async def test_without_a_level_there_are_no_log_messages(connected: Connected) -> None:
    async with connected.wire() as wire:
        await wire.call("say", {"levels": LEVELS})
        await wire.result("tools/list")
        assert wire.notifications() == []


@proves("utilities/log-level")
@HANDSHAKE_ONLY
async def test_after_a_handshake_there_are_some_before_a_level_is_set(connected: Connected) -> None:
    async with connected.wire() as wire:
        await wire.call("say", {"levels": ["debug", "info", "error"]})
        assert [each["params"]["level"] for each in wire.notifications(LOG)] == ["info", "error"]


@proves("utilities/log-on-own-stream", "http/related-only")
@over("memory", "http", stateless=True)
async def test_log_messages_come_before_their_result_and_nowhere_else(connected: Connected) -> None:
    async with connected.wire() as wire, connected.wire() as other:
        listening = await wire.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await wire.heard_from("notifications/subscriptions/acknowledged")
        waiting = await wire.begin("hold", {"name": "quiet"})
        number = await wire.begin("say", {"levels": ["error"]}, meta={f"{META_PREFIX}logLevel": "debug"})
        await wire.answer(number)
        places = {each.get("method", each.get("id")): place for place, each in enumerate(wire.heard)}
        assert places[LOG] < places[number]
        await wire.call("let_go", {"name": "quiet"})
        await wire.answer(waiting)
        await other.result("tools/list")
        assert other.notifications() == []
        if isinstance(wire, HttpWire):
            assert [LOG in each.data for each in wire.replies[number].events if each.data] == [True, False]
            assert not any(LOG in each.data for key in (listening, waiting) for each in wire.replies[key].events)


@proves("utilities/log-bad-level")
async def test_a_level_that_is_none_is_an_invalid_parameter(connected: Connected) -> None:
    async with connected.wire() as wire:
        for level in ("loud", "ERROR", ""):
            if connected.stateless:
                error = await wire.error("tools/list", meta={f"{META_PREFIX}logLevel": level})
            else:
                error = await wire.error("logging/setLevel", {"level": level})
            assert error["code"] == -32602, level


@proves("utilities/log-no-secrets")
async def test_what_fails_unexpectedly_is_not_logged_to_clients(connected: Connected) -> None:
    async with connected.wire() as wire:
        await wire.call("crash", meta=await opted_in(wire, "debug"))
        await wire.get("resources/read", {"uri": "test://crash"}, meta=await opted_in(wire, "debug"))
        assert SECRET not in json.dumps(wire.heard)
        assert "Traceback" not in json.dumps(wire.heard)


@proves("utilities/log-limited", "utilities/progress-limited")
async def test_a_flood_of_messages_is_limited(connected: Connected) -> None:
    async with connected.wire() as wire:
        opted = await opted_in(wire, "debug")
        await wire.call("chatter", {"times": 1_000}, meta={"progressToken": "many", **opted})
        for method in (LOG, PROGRESS):
            assert 0 < len(wire.notifications(method)) < 500


@proves("utilities/cancel", "utilities/cancel-silent", "utilities/server-cancels-nothing")
@over(*TRANSPORTS, both_loops=True)
async def test_a_request_that_is_given_up_is_stopped_and_says_no_more(connected: Connected) -> None:
    async with connected.wire() as wire:
        given_up = await wire.begin("hold", {"name": "1"}, meta={"progressToken": "1"})
        kept = await wire.begin("hold", {"name": "2"})
        await wire.heard_from(PROGRESS)
        await wire.call("wait_for", {"kind": "begun", "name": "2"})
        await wire.cancel(given_up)
        await wire.call("wait_for", {"kind": "cancelled", "name": "1"})
        await wire.call("let_go", {"name": "1"})
        await wire.call("let_go", {"name": "2"})
        assert (await wire.answer(kept))["result"]["content"][0]["text"] == "let go"
        answers = [each for each in wire.heard if each.get("id") == given_up]
        ends_a_stream = not wire.stateless and wire.transport == "http"
        assert [each["error"]["code"] for each in answers] == ([-32800] if ends_a_stream else [])
        assert len(wire.notifications(PROGRESS)) == 1
        assert wire.notifications("notifications/cancelled") == []


@proves("utilities/cancel-races")
async def test_cancellations_that_come_too_late_or_are_malformed_disturb_nothing(connected: Connected) -> None:
    async with connected.wire() as wire:
        running = await wire.begin("hold", {"name": "1"})
        await wire.call("wait_for", {"kind": "begun", "name": "1"})
        done = await wire.ask("tools/list")
        await wire.answer(done)
        wrong: list[Any] = [{"requestId": done}, {"requestId": 10**9}, {"requestId": None}, {"requestId": {}}, {}]
        for params in wrong:
            await wire.tell("notifications/cancelled", params)
        assert (await wire.call("echo", {"text": "hi"}))["content"][0]["text"] == "hi"
        await wire.call("let_go", {"name": "1"})
        assert (await wire.answer(running))["result"]["content"][0]["text"] == "let go"


@proves("http/disconnect-cancels")
@over("http", stateless=True)
async def test_a_client_that_disconnects_cancels_its_request(connected: Connected) -> None:
    async with connected.wire() as wire:
        waiting = await wire.begin("hold", {"name": "1"})
        await wire.call("wait_for", {"kind": "begun", "name": "1"})
        wire.hang_up(waiting)
        await wire.call("wait_for", {"kind": "cancelled", "name": "1"})


@proves("http/disconnect-does-not-cancel")
@over("http", stateless=False)
async def test_a_client_that_loses_its_stream_after_a_handshake_does_not_cancel(connected: Connected) -> None:
    async with connected.wire() as wire:
        waiting = await wire.begin("hold", {"name": "1"})
        await wire.call("wait_for", {"kind": "begun", "name": "1"})
        wire.hang_up(waiting)
        await wire.call("let_go", {"name": "1"})
        assert (await wire.call("wait_for", {"kind": "done", "name": "1"}))["content"][0]["text"] == "done"


@proves("utilities/cancel")
@EVERY_TRANSPORT
async def test_the_official_client_cancels_progress_callbacks_and_all(connected: Connected) -> None:
    seen: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with connected.client(cache=None) as client:
        await client.list_tools()
        await client.call_tool("steps", {"values": [1, 2, 3]}, progress_callback=hear)
        assert seen == [1, 2, 3]
        async with beside() as tasks:
            tasks.start_soon(client.call_tool, "hold", {"name": "1"})
            await client.call_tool("wait_for", {"kind": "begun", "name": "1"})
        await client.call_tool("wait_for", {"kind": "cancelled", "name": "1"})
