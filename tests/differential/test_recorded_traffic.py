"""Clients get equal responses from the engine and from the SDK's server."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from tests.kits.oracle.listed_differences import describe, find_difference
from tests.kits.oracle.recorded_client import record_client
from tests.kits.oracle.recordings import list_recordings, read_recording
from tests.kits.oracle.twin_servers import Outcome, connect_twins

USED = {
    "legacy": {"initialize", "ping", "logging/setLevel", "resources/subscribe", "notifications/roots/list_changed"},
    "auto": {"server/discover", "subscriptions/listen"},
    "2026-07-28": {"subscriptions/listen"},
}
"""What only the traffic of one mode has; the rest is in all of them."""

STATELESS = {"server/discover", "subscriptions/listen"}
ALL = {"resources/read", "resources/templates/list", "prompts/get"}
TYPESCRIPT = {*ALL, "completion/complete", "notifications/cancelled"}
RECORDED = {
    "claude-code": {*STATELESS, "prompts/list", "resources/list"},
    "codex": {"initialize"},
    "gemini-cli": {"initialize", "ping", "prompts/list", "resources/list"},
    "inspector-legacy": {*ALL, "initialize", "logging/setLevel"},
    "inspector-auto": {*ALL, *STATELESS},
    "inspector-modern": {*ALL, *STATELESS},
    "opencode": {"initialize", "notifications/cancelled"},
    "typescript-legacy": {*TYPESCRIPT, "initialize", "ping", "logging/setLevel", "resources/subscribe"},
    "typescript-auto": {*TYPESCRIPT, *STATELESS},
    "typescript-modern": {*TYPESCRIPT, *STATELESS},
}
"""What the recording of each client has besides `tools/list` and `tools/call`."""


@pytest.mark.parametrize("mode", USED)
async def test_the_official_client_gets_equal_replies(mode: str) -> None:
    lines = await record_client(mode)
    methods = {json.loads(line).get("method", "response") for line in lines}
    assert methods >= USED[mode] | {"tools/call", "completion/complete", "notifications/cancelled"}
    outcomes = await replay(lines)
    replies = json.dumps([outcome.engine for outcome in outcomes])
    assert all(text in replies for text in ('"name": "Ada"', "notifications/message", "notifications/progress"))


@pytest.mark.parametrize("client", RECORDED)
async def test_a_recorded_client_gets_equal_replies(client: str) -> None:
    sessions = read_recording(client)
    methods = {json.loads(line).get("method") for lines in sessions for line in lines}
    assert methods >= RECORDED[client] | {"tools/list", "tools/call"}
    replies = json.dumps([outcome.engine for lines in sessions for outcome in await replay(lines)])
    assert '"tools": [' in replies
    assert "structuredContent" in replies


def test_every_recording_is_replayed() -> None:
    assert list_recordings() == set(RECORDED)


async def replay(lines: Sequence[bytes]) -> list[Outcome]:
    """Send the lines of one session to both servers. Fails if a difference is not listed."""
    async with connect_twins() as twins:
        outcomes = [await twins.exchange(line) for line in lines]
    different = [outcome for outcome in outcomes if not outcome.is_equal and find_difference(outcome) is None]
    assert not different, describe(different[0])
    return outcomes
