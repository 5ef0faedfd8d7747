"""Progress, log messages and cancellation of one request, in both eras."""

from __future__ import annotations

import json
from typing import Any

from mcp_types import LoggingMessageNotificationParams

from tests.client.http_client import HttpClient
from tests.client.raw_client import Json, RawClient, open_task_group
from tests.kits.constants import META_PREFIX
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

LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LOG = "notifications/message"
PROGRESS = "notifications/progress"


async def request_logs(raw: RawClient, level: str) -> Json:
    """Request log messages from this level on, as clients of the era do; return the `_meta` for the next requests."""
    if raw.stateless:
        return {f"{META_PREFIX}logLevel": level}
    await raw.get_result("logging/setLevel", {"level": level})
    return {}


@proves("utilities/progress-token", "utilities/progress-increases")
@over("memory", "http")
async def test_progress_grows_and_carries_the_token_of_the_request(connected: Connected) -> None:
    values = {"values": [1, 1, 0.5, 2, 3.5]}
    async with connected.raw_client() as raw:
        for token in ("a text", 7, 0):
            await raw.call("steps", values, meta={"progressToken": token})
            notifications = [
                notification["params"]
                for notification in raw.list_notifications(PROGRESS)
                if notification["params"]["progressToken"] == token
            ]
            assert [params["progress"] for params in notifications] == [1, 2, 3.5]
            assert all(type(params["progressToken"]) is type(token) for params in notifications)
            assert (notifications[0]["total"], notifications[0]["message"]) == (3.5, "at 1.0")
        before = len(raw.list_notifications())
        await raw.call("steps", values)
        assert len(raw.list_notifications()) == before == 9


@proves("utilities/progress-stops")
@over("memory", "http")
async def test_progress_and_log_messages_stop_at_the_end_of_a_request(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        opted = await request_logs(raw, "debug")
        await raw.call("keep", meta={"progressToken": "kept", **opted})
        assert (await raw.call("use_kept"))["content"][0]["text"] == "used"
        await raw.get_result("tools/list")
        assert [notification["params"]["progress"] for notification in raw.list_notifications()] == [1]


@proves("utilities/log-level", "utilities/log-messages")
async def test_log_messages_are_at_or_above_the_level_that_was_asked_for(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        for level in ("debug", "warning", "emergency"):
            start = len(raw.list_notifications(LOG))
            await raw.call("say", {"levels": LEVELS}, meta=await request_logs(raw, level))
            notifications = [notification["params"] for notification in raw.list_notifications(LOG)[start:]]
            assert [params["level"] for params in notifications] == LEVELS[LEVELS.index(level) :]
            for params in notifications:
                LoggingMessageNotificationParams.model_validate(params)
                assert (params["logger"], params["data"]["text"]) == ("tests", f"ünï {params['level']}")


@proves("utilities/log-on-request")
@STATELESS_ONLY
async def test_without_a_level_there_are_no_log_messages(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        await raw.call("say", {"levels": LEVELS})
        await raw.get_result("tools/list")
        assert raw.list_notifications() == []


@proves("utilities/log-level")
@HANDSHAKE_ONLY
async def test_after_a_handshake_log_messages_from_info_on_are_sent_before_a_level_is_set(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        await raw.call("say", {"levels": ["debug", "info", "error"]})
        assert [notification["params"]["level"] for notification in raw.list_notifications(LOG)] == ["info", "error"]


@proves("utilities/log-on-own-stream", "http/related-only")
@over("memory", "http", stateless=True)
async def test_log_messages_are_sent_before_their_result_and_on_no_other_stream(connected: Connected) -> None:
    async with connected.raw_client() as raw, connected.raw_client() as second:
        listening = await raw.send_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await raw.receive_message("notifications/subscriptions/acknowledged")
        waiting = await raw.send_call("hold", {"name": "quiet"})
        number = await raw.send_call("say", {"levels": ["error"]}, meta={f"{META_PREFIX}logLevel": "debug"})
        await raw.receive_response(number)
        places = {message.get("method", message.get("id")): place for place, message in enumerate(raw.received)}
        assert places[LOG] < places[number]
        await raw.call("let_go", {"name": "quiet"})
        await raw.receive_response(waiting)
        await second.get_result("tools/list")
        assert second.list_notifications() == []
        if isinstance(raw, HttpClient):
            assert [LOG in message.data for message in raw.responses[number].events if message.data] == [True, False]
            assert not any(LOG in message.data for key in (listening, waiting) for message in raw.responses[key].events)


@proves("utilities/log-bad-level")
async def test_an_invalid_level_is_an_invalid_parameter(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        for level in ("loud", "ERROR", ""):
            if connected.stateless:
                error = await raw.get_error("tools/list", meta={f"{META_PREFIX}logLevel": level})
            else:
                error = await raw.get_error("logging/setLevel", {"level": level})
            assert error["code"] == -32602, level


@proves("utilities/log-no-secrets")
async def test_unexpected_failures_are_not_logged_to_clients(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        await raw.call("crash", meta=await request_logs(raw, "debug"))
        await raw.request("resources/read", {"uri": "test://crash"}, meta=await request_logs(raw, "debug"))
        assert SECRET not in json.dumps(raw.received)
        assert "Traceback" not in json.dumps(raw.received)


@proves("utilities/log-limited", "utilities/progress-limited")
async def test_a_flood_of_messages_is_limited(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        opted = await request_logs(raw, "debug")
        await raw.call("chatter", {"times": 1_000}, meta={"progressToken": "many", **opted})
        for method in (LOG, PROGRESS):
            assert 0 < len(raw.list_notifications(method)) < 500


@proves("utilities/cancel", "utilities/cancel-silent", "utilities/server-cancels-nothing")
@over(*TRANSPORTS, both_loops=True)
async def test_a_cancelled_request_stops_and_sends_no_more_messages(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        given_up = await raw.send_call("hold", {"name": "1"}, meta={"progressToken": "1"})
        running_call = await raw.send_call("hold", {"name": "2"})
        await raw.receive_message(PROGRESS)
        await raw.call("wait_for", {"kind": "begun", "name": "2"})
        await raw.cancel(given_up)
        await raw.call("wait_for", {"kind": "cancelled", "name": "1"})
        await raw.call("let_go", {"name": "1"})
        await raw.call("let_go", {"name": "2"})
        assert (await raw.receive_response(running_call))["result"]["content"][0]["text"] == "let go"
        answers = [message for message in raw.received if message.get("id") == given_up]
        ends_a_stream = not raw.stateless and raw.transport == "http"
        assert [message["error"]["code"] for message in answers] == ([-32800] if ends_a_stream else [])
        assert len(raw.list_notifications(PROGRESS)) == 1
        assert raw.list_notifications("notifications/cancelled") == []


@proves("utilities/cancel-races")
async def test_late_and_malformed_cancellations_have_no_effect(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        running = await raw.send_call("hold", {"name": "1"})
        await raw.call("wait_for", {"kind": "begun", "name": "1"})
        last_request = await raw.send_request("tools/list")
        await raw.receive_response(last_request)
        wrong: list[Any] = [
            {"requestId": last_request},
            {"requestId": 10**9},
            {"requestId": None},
            {"requestId": {}},
            {},
        ]
        for params in wrong:
            await raw.notify("notifications/cancelled", params)
        assert (await raw.call("echo", {"text": "hi"}))["content"][0]["text"] == "hi"
        await raw.call("let_go", {"name": "1"})
        assert (await raw.receive_response(running))["result"]["content"][0]["text"] == "let go"


@proves("http/disconnect-cancels")
@over("http", stateless=True)
async def test_a_client_that_disconnects_cancels_its_request(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        waiting = await raw.send_call("hold", {"name": "1"})
        await raw.call("wait_for", {"kind": "begun", "name": "1"})
        raw.close_stream(waiting)
        await raw.call("wait_for", {"kind": "cancelled", "name": "1"})


@proves("http/disconnect-does-not-cancel")
@over("http", stateless=False)
async def test_a_client_that_loses_its_stream_after_a_handshake_does_not_cancel(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        waiting = await raw.send_call("hold", {"name": "1"})
        await raw.call("wait_for", {"kind": "begun", "name": "1"})
        raw.close_stream(waiting)
        await raw.call("let_go", {"name": "1"})
        assert (await raw.call("wait_for", {"kind": "done", "name": "1"}))["content"][0]["text"] == "done"


@proves("utilities/cancel")
@EVERY_TRANSPORT
async def test_the_official_client_gets_progress_and_can_cancel_a_call(connected: Connected) -> None:
    seen: list[float] = []

    async def record_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with connected.client(cache=None) as client:
        await client.list_tools()
        await client.call_tool("steps", {"values": [1, 2, 3]}, progress_callback=record_progress)
        assert seen == [1, 2, 3]
        async with open_task_group() as tasks:
            tasks.start_soon(client.call_tool, "hold", {"name": "1"})
            await client.call_tool("wait_for", {"kind": "begun", "name": "1"})
        await client.call_tool("wait_for", {"kind": "cancelled", "name": "1"})
