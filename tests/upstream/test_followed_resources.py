"""A source remembers the subscriptions of clients to resources."""

from __future__ import annotations

import tracemalloc

from mcp_bridge._sources.upstream.resource_follower import ResourceFollower


def test_subscriptions_that_have_ended_leave_no_memory_while_the_server_cannot_be_subscribed_to() -> None:
    follower = ResourceFollower()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(5_000):
            uri = f"notes://{number:0100}"
            follower.follow_resource(uri, is_wanted=True)
            follower.follow_resource(uri, is_wanted=False)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 50_000
