"""Streamable HTTP after a handshake: sessions, and streams that can be resumed."""

from __future__ import annotations

import anyio
import pytest

from tests.kits.constants import HANDSHAKE, TIMEOUT
from tests.kits.protocol.protocol_http import HttpWire, Reply
from tests.kits.protocol.protocol_manifest import proves
from tests.kits.protocol.protocol_ways import Connected, over

HANDSHAKE_HTTP = over("http", stateless=False)
CHANGED = "notifications/tools/list_changed"


async def status(wire: HttpWire, method: str = "POST", **headers: str) -> int:
    """The HTTP status of a request with these headers."""
    given = {**wire.headers({}), **{key.replace("_", "-"): value for key, value in headers.items()}}
    given = {key: value for key, value in given.items() if value}
    body = wire.request("tools/list") if method == "POST" else None
    return int((await wire.http.request(method, wire.url, json=body, headers=given)).status_code)


@proves("http/session-id")
@HANDSHAKE_HTTP
async def test_a_session_id_is_visible_ascii_and_hard_to_guess(connected: Connected) -> None:
    async with connected.wire() as one, connected.wire() as other:
        ids = [wire.always["Mcp-Session-Id"] for wire in (one, other)]
        assert len(set(ids)) == 2
        for session in ids:
            assert len(session) >= 32
            assert all(0x21 <= ord(letter) <= 0x7E for letter in session)


@proves("http/session-required", "http/session-ended")
@HANDSHAKE_HTTP
async def test_a_session_is_needed_until_it_ends_and_gone_after_that(connected: Connected) -> None:
    async with connected.wire() as wire:
        assert await status(wire) == 200
        assert await status(wire, Mcp_Session_Id="") == 400
        assert await status(wire, Mcp_Session_Id="made-up") == 404
        assert await status(wire, "DELETE") in {200, 204}
        assert await status(wire) == 404
        assert await status(wire, "GET") == 404


@proves("http/bad-version")
@HANDSHAKE_HTTP
async def test_a_version_that_is_none_is_a_bad_request(connected: Connected) -> None:
    async with connected.wire() as wire:
        for version in ("nonsense", "1999-01-01", "2099-01-01"):
            assert await status(wire, MCP_Protocol_Version=version) == 400
        assert await status(wire, MCP_Protocol_Version=HANDSHAKE) == 200


@proves("http/get-stream", "http/one-stream")
@HANDSHAKE_HTTP
async def test_the_standalone_stream_carries_what_belongs_to_no_request_and_no_answers(connected: Connected) -> None:
    async with connected.wire() as wire:
        waiting = await wire.begin("hold", {"name": "1"}, meta={"progressToken": "1"})
        await wire.heard_from("notifications/progress")
        await wire.call("add", {"kind": "tools", "name": "newcomer"})
        await wire.heard_from(CHANGED)
        await wire.call("let_go", {"name": "1"})
        await wire.answer(waiting)
        standalone = "".join(event.data for event in wire.replies["GET"].events)
        assert CHANGED in standalone
        assert '"result"' not in standalone
        assert "notifications/progress" not in standalone
        assert len(wire.notifications(CHANGED)) == 1


@proves("http/priming", "http/event-ids")
@HANDSHAKE_HTTP
async def test_streams_begin_with_an_id_and_no_id_is_there_twice(connected: Connected) -> None:
    async with connected.wire() as wire:
        for _ in range(3):
            await wire.call("steps", {"values": [1, 2]}, meta={"progressToken": "t"})
        await wire.call("add", {"kind": "tools", "name": "newcomer"})
        await wire.heard_from(CHANGED)
        streams = [reply.events for key, reply in wire.replies.items() if isinstance(key, int) and reply.events]
        for events in streams:
            assert (events[0].data, bool(events[0].id)) == ("", True)
        ids = [event.id for reply in wire.replies.values() for event in reply.events if event.id]
        assert len(ids) > 10
        assert len(set(ids)) == len(ids)


@proves("http/resumption")
@HANDSHAKE_HTTP
async def test_a_stream_that_broke_goes_on_where_it_was_with_its_own_messages(connected: Connected) -> None:
    async with connected.wire() as wire:
        waiting = await wire.begin("hold", {"name": "1"}, meta={"progressToken": "1"})
        other = await wire.begin("hold", {"name": "2"}, meta={"progressToken": "2"})
        for name in ("1", "2"):
            await wire.call("wait_for", {"kind": "begun", "name": name})
            await wire.until(lambda message, name=name: message.get("params", {}).get("progressToken") == name)
        last = wire.replies[waiting].events[-1].id
        wire.hang_up(waiting)
        for name in ("1", "2"):
            await wire.call("let_go", {"name": name})
        await wire.answer(other)
        resumed = await wire.listen("again", last=str(last))
        assert (await wire.answer(waiting))["result"]["content"][0]["text"] == "let go"
        said = [event.data for event in resumed.events if event.data]
        assert len(said) == 2
        assert ['"progressToken":"1"' in said[0], f'"id":{waiting}' in said[1]] == [True, True]
        assert len(wire.notifications("notifications/progress")) == 4


@proves("http/resumption")
@HANDSHAKE_HTTP
async def test_a_stream_can_be_resumed_from_its_very_start(connected: Connected) -> None:
    async with connected.wire() as wire:
        waiting = await wire.begin("hold", {"name": "1"})
        await wire.call("wait_for", {"kind": "begun", "name": "1"})
        with anyio.fail_after(TIMEOUT):
            while waiting not in wire.replies or not wire.replies[waiting].events:  # noqa: ASYNC110 - an event without data
                await anyio.sleep(0.01)
        first = wire.replies[waiting].events[0].id
        wire.hang_up(waiting)
        resumed = await wire.listen("again", last=str(first))
        await wire.call("let_go", {"name": "1"})
        assert (await wire.answer(waiting))["result"]["content"][0]["text"] == "let go"
        await ended(resumed)


@proves("http/resumption")
@HANDSHAKE_HTTP
@pytest.mark.parametrize("made_up", [True, False], ids=["made up", "of another session"])
async def test_nobody_gets_the_messages_of_another_stream(connected: Connected, made_up: bool) -> None:
    async with connected.wire() as wire, connected.wire() as stranger:
        number = await wire.begin("steps", {"values": [1]}, meta={"progressToken": "secret"})
        await wire.answer(number)
        taken = "made-up" if made_up else str(wire.replies[number].events[0].id)
        resumed = await stranger.listen("again", last=taken)
        await stranger.call("echo", {"text": "hi"})
        assert [event.data for event in resumed.events if event.data] == []
        assert stranger.notifications() == []


async def ended(reply: Reply) -> None:
    """Wait until a stream has ended."""
    with anyio.fail_after(TIMEOUT):
        await reply.ended.wait()
