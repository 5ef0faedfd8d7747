"""subscriptions/listen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.kits.constants import META_PREFIX
from tests.kits.protocol.protocol_manifest import proves
from tests.kits.protocol.protocol_ways import STATELESS_ONLY, TRANSPORTS, Connected, over
from tests.kits.protocol.protocol_wire import Json, Wire

ID = f"{META_PREFIX}subscriptionId"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
TOOLS = "notifications/tools/list_changed"


async def listen(wire: Wire, **notifications: Any) -> Any:
    """Open a subscription; its id, once it is acknowledged."""
    number = await wire.ask("subscriptions/listen", {"notifications": notifications})
    await wire.until(lambda message: message.get("method") == ACKNOWLEDGED and id_of(message) == number)
    return number


def id_of(message: Json) -> Any:
    """The subscription that a message belongs to."""
    return message.get("params", message.get("result", {})).get("_meta", {}).get(ID)


def heard_on(wire: Wire, number: Any) -> list[Json]:
    """What came on a subscription."""
    return [message for message in wire.heard if id_of(message) == number]


def methods(messages: Iterable[Json]) -> list[str]:
    """The methods of some notifications."""
    return [message["method"] for message in messages]


async def add(wire: Wire, kind: str, name: str) -> None:
    """Change a list."""
    await wire.call("add", {"kind": kind, "name": name})


@proves("subscriptions/only-requested", "subscriptions/acknowledged-first", "subscriptions/subscription-id")
@over("memory", "http", stateless=True)
async def test_a_listener_gets_what_it_requested_under_its_id_and_nothing_else(connected: Connected) -> None:
    async with connected.wire() as wire:
        number = await listen(wire, toolsListChanged=True)
        for kind in ("resources", "prompts", "tools"):
            await add(wire, kind, "newcomer")
        await wire.call("touch", {"uri": "test://watched"})
        await wire.heard_from(TOOLS)
        assert methods(heard_on(wire, number)) == [ACKNOWLEDGED, TOOLS]
        assert len(wire.notifications()) == 2


@proves("subscriptions/acknowledged-first")
@over("memory", "http", stateless=True)
async def test_the_acknowledgment_is_first_also_when_something_changes_at_once(connected: Connected) -> None:
    async with connected.wire() as wire:
        number = await wire.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        for name in ("a1", "a2", "a3"):
            await add(wire, "tools", name)
        await wire.until(lambda message: message.get("method") == ACKNOWLEDGED)
        assert methods(heard_on(wire, number))[0] == ACKNOWLEDGED


@proves("subscriptions/honored-subset")
@STATELESS_ONLY
async def test_the_acknowledgment_says_what_is_honored(connected: Connected) -> None:
    async with connected.wire() as wire:
        asked = {"promptsListChanged": True, "resourceSubscriptions": ["test://watched"], "weather": True}
        await wire.ask("subscriptions/listen", {"notifications": asked})
        honored = (await wire.heard_from(ACKNOWLEDGED))["params"]["notifications"]
        assert honored == {"promptsListChanged": True, "resourceSubscriptions": ["test://watched"]}


@proves("subscriptions/several", "subscriptions/client-cancels")
@over("memory", "http", stateless=True)
async def test_several_subscriptions_are_told_apart_and_end_one_by_one(connected: Connected) -> None:
    async with connected.wire() as wire:
        first, second = await listen(wire, toolsListChanged=True), await listen(wire, toolsListChanged=True)
        await add(wire, "tools", "one")
        for number in (first, second):
            await wire.until(lambda message, number=number: message.get("method") == TOOLS and id_of(message) == number)
        await wire.cancel(first)
        third = await listen(wire, toolsListChanged=True)
        await add(wire, "tools", "two")
        for number in (second, third):
            await wire.until(lambda message, number=number: message.get("method") == TOOLS and id_of(message) == number)
        assert methods(heard_on(wire, first)) == [ACKNOWLEDGED, TOOLS]
        assert [each for each in wire.heard if each.get("id") == first] == []


@proves("subscriptions/graceful-end")
@over(*TRANSPORTS, stateless=True)
async def test_a_subscription_that_the_server_ends_gets_its_result(connected: Connected) -> None:
    async with connected.wire() as wire:
        number = await listen(wire, toolsListChanged=True)
        if wire.transport == "stdio":
            assert await wire.end() == 0
        else:
            connected.end_listeners()
        result = (await wire.answer(number))["result"]
        assert (result["resultType"], result["_meta"][ID]) == ("complete", number)
        for cancelled in wire.notifications("notifications/cancelled"):
            assert cancelled["params"]["requestId"] == number


@proves("subscriptions/subscription-id")
@STATELESS_ONLY
async def test_the_id_is_the_requests_own_a_text_too(connected: Connected) -> None:
    async with connected.wire() as wire:
        await wire.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="a text")
        assert id_of(await wire.heard_from(ACKNOWLEDGED)) == "a text"
        await add(wire, "tools", "newcomer")
        assert id_of(await wire.heard_from(TOOLS)) == "a text"
