"""Streamable HTTP after a handshake: sessions, and resumable streams."""

from __future__ import annotations

import anyio
import pytest

from tests.client.http_client import HttpClient, HttpResponse
from tests.kits.constants import HANDSHAKE, TIMEOUT
from tests.kits.protocol.protocol_manifest import proves
from tests.kits.protocol.protocol_ways import Connected, over

HANDSHAKE_HTTP = over("http", stateless=False)
CHANGED = "notifications/tools/list_changed"


async def get_status(raw: HttpClient, method: str = "POST", **headers: str) -> int:
    """Return the HTTP status of a request with these headers. An empty value removes a header."""
    all_headers = {**raw.make_headers({}), **{key.replace("_", "-"): value for key, value in headers.items()}}
    all_headers = {key: value for key, value in all_headers.items() if value}
    body = raw.make_request("tools/list") if method == "POST" else None
    return int((await raw.http.request(method, raw.url, json=body, headers=all_headers)).status_code)


@proves("http/session-id")
@HANDSHAKE_HTTP
async def test_a_session_id_is_visible_ascii_and_hard_to_guess(connected: Connected) -> None:
    async with connected.raw_client() as first, connected.raw_client() as second:
        ids = [raw.headers["Mcp-Session-Id"] for raw in (first, second)]
        assert len(set(ids)) == 2
        for session in ids:
            assert len(session) >= 32
            assert all(0x21 <= ord(letter) <= 0x7E for letter in session)


@proves("http/session-required", "http/session-ended")
@HANDSHAKE_HTTP
async def test_a_session_is_needed_until_it_ends_and_gone_after_that(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        assert await get_status(raw) == 200
        assert await get_status(raw, Mcp_Session_Id="") == 400
        assert await get_status(raw, Mcp_Session_Id="made-up") == 404
        assert await get_status(raw, "DELETE") in {200, 204}
        assert await get_status(raw) == 404
        assert await get_status(raw, "GET") == 404


@proves("http/bad-version")
@HANDSHAKE_HTTP
async def test_an_invalid_version_is_a_bad_request(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        for version in ("nonsense", "1999-01-01", "2099-01-01"):
            assert await get_status(raw, MCP_Protocol_Version=version) == 400
        assert await get_status(raw, MCP_Protocol_Version=HANDSHAKE) == 200


@proves("http/get-stream", "http/one-stream")
@HANDSHAKE_HTTP
async def test_the_standalone_stream_carries_what_belongs_to_no_request_and_no_answers(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        waiting = await raw.send_call("hold", {"name": "1"}, meta={"progressToken": "1"})
        await raw.receive_message("notifications/progress")
        await raw.call("add", {"kind": "tools", "name": "newcomer"})
        await raw.receive_message(CHANGED)
        await raw.call("let_go", {"name": "1"})
        await raw.receive_response(waiting)
        standalone = "".join(event.data for event in raw.responses["GET"].events)
        assert CHANGED in standalone
        assert '"result"' not in standalone
        assert "notifications/progress" not in standalone
        assert len(raw.list_notifications(CHANGED)) == 1


@proves("http/priming", "http/event-ids")
@HANDSHAKE_HTTP
async def test_streams_begin_with_an_id_and_no_id_is_there_twice(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        for _ in range(3):
            await raw.call("steps", {"values": [1, 2]}, meta={"progressToken": "t"})
        await raw.call("add", {"kind": "tools", "name": "newcomer"})
        await raw.receive_message(CHANGED)
        # The keys of POST requests are their ids, which are integers.
        streams = [reply.events for key, reply in raw.responses.items() if isinstance(key, int) and reply.events]
        for events in streams:
            assert (events[0].data, bool(events[0].id)) == ("", True)
        ids = [event.id for reply in raw.responses.values() for event in reply.events if event.id]
        assert len(ids) > 10
        assert len(set(ids)) == len(ids)


@proves("http/resumption")
@HANDSHAKE_HTTP
async def test_a_stream_that_broke_goes_on_where_it_was_with_its_own_messages(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        waiting = await raw.send_call("hold", {"name": "1"}, meta={"progressToken": "1"})
        second_call = await raw.send_call("hold", {"name": "2"}, meta={"progressToken": "2"})
        for name in ("1", "2"):
            await raw.call("wait_for", {"kind": "begun", "name": name})
            await raw.receive(lambda message, name=name: message.get("params", {}).get("progressToken") == name)
        last = raw.responses[waiting].events[-1].id
        raw.close_stream(waiting)
        for name in ("1", "2"):
            await raw.call("let_go", {"name": name})
        await raw.receive_response(second_call)
        resumed = await raw.open_stream("again", last_event_id=str(last))
        assert (await raw.receive_response(waiting))["result"]["content"][0]["text"] == "let go"
        data = [event.data for event in resumed.events if event.data]
        assert len(data) == 2
        assert ['"progressToken":"1"' in data[0], f'"id":{waiting}' in data[1]] == [True, True]
        # Each of the two calls reports twice, and no report is repeated.
        assert len(raw.list_notifications("notifications/progress")) == 4


@proves("http/resumption")
@HANDSHAKE_HTTP
async def test_a_stream_can_be_resumed_from_its_very_start(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        waiting = await raw.send_call("hold", {"name": "1"})
        await raw.call("wait_for", {"kind": "begun", "name": "1"})
        with anyio.fail_after(TIMEOUT):
            while waiting not in raw.responses or not raw.responses[waiting].events:  # noqa: ASYNC110 - an event without data
                await anyio.sleep(0.01)
        first = raw.responses[waiting].events[0].id
        raw.close_stream(waiting)
        resumed = await raw.open_stream("again", last_event_id=str(first))
        await raw.call("let_go", {"name": "1"})
        assert (await raw.receive_response(waiting))["result"]["content"][0]["text"] == "let go"
        await wait_for_end(resumed)


@proves("http/resumption")
@HANDSHAKE_HTTP
@pytest.mark.parametrize("made_up", [True, False], ids=["made up", "of another session"])
async def test_no_client_gets_the_messages_of_another_stream(connected: Connected, made_up: bool) -> None:
    async with connected.raw_client() as raw, connected.raw_client() as other_client:
        number = await raw.send_call("steps", {"values": [1]}, meta={"progressToken": "secret"})
        await raw.receive_response(number)
        event_id = "made-up" if made_up else str(raw.responses[number].events[0].id)
        resumed = await other_client.open_stream("again", last_event_id=event_id)
        await other_client.call("echo", {"text": "hi"})
        assert [event.data for event in resumed.events if event.data] == []
        assert other_client.list_notifications() == []


async def wait_for_end(reply: HttpResponse) -> None:
    """Wait until a stream has ended."""
    with anyio.fail_after(TIMEOUT):
        await reply.ended.wait()
