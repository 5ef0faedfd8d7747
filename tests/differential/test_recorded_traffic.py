"""What the official client sends gets equal replies from the engine and from the SDK's server."""

from __future__ import annotations

import json

import pytest

from tests.kits.oracle.listed_differences import describe, find_difference
from tests.kits.oracle.recorded_client import record_client
from tests.kits.oracle.twin_servers import connect_twins

USED = {
    "legacy": {"initialize", "ping", "logging/setLevel", "resources/subscribe", "notifications/roots/list_changed"},
    "auto": {"server/discover", "subscriptions/listen"},
    "2026-07-28": {"subscriptions/listen"},
}
"""What only the traffic of one mode has; the rest is in all of them."""


@pytest.fixture
def anyio_backend() -> str:
    """Only trio knows at once when no task can continue."""
    return "trio"


@pytest.mark.parametrize("mode", USED)
async def test_the_official_client_gets_equal_replies(mode: str) -> None:
    lines = await record_client(mode)
    methods = {json.loads(line).get("method", "response") for line in lines}
    assert methods >= USED[mode] | {"tools/call", "completion/complete", "notifications/cancelled"}
    async with connect_twins() as twins:
        outcomes = [await twins.exchange(line) for line in lines]
    different = [outcome for outcome in outcomes if not outcome.is_equal and find_difference(outcome) is None]
    assert not different, describe(different[0])
    replies = json.dumps([outcome.engine for outcome in outcomes])
    assert all(text in replies for text in ('"name": "Ada"', "notifications/message", "notifications/progress"))
