"""subscriptions/listen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.client.raw_client import Json, RawClient
from tests.kits.constants import META_PREFIX
from tests.kits.protocol.protocol_manifest import proves
from tests.kits.protocol.protocol_ways import STATELESS_ONLY, TRANSPORTS, Connected, over

ID = f"{META_PREFIX}subscriptionId"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
TOOLS = "notifications/tools/list_changed"


async def listen(raw: RawClient, **notifications: Any) -> Any:
    """Open a subscription; its id, once it is acknowledged."""
    number = await raw.send_request("subscriptions/listen", {"notifications": notifications})
    await raw.receive(lambda message: message.get("method") == ACKNOWLEDGED and get_subscription_id(message) == number)
    return number


def get_subscription_id(message: Json) -> Any:
    """Return the subscription of a message."""
    return message.get("params", message.get("result", {})).get("_meta", {}).get(ID)


def list_messages_of(raw: RawClient, number: Any) -> list[Json]:
    """Return the messages of a subscription."""
    return [message for message in raw.received if get_subscription_id(message) == number]


def list_methods(messages: Iterable[Json]) -> list[str]:
    """Return the methods of some notifications."""
    return [message["method"] for message in messages]


async def add(raw: RawClient, list_name: str, name: str) -> None:
    """Change a list."""
    await raw.call("add", {"kind": list_name, "name": name})


@proves("subscriptions/only-requested", "subscriptions/acknowledged-first", "subscriptions/subscription-id")
@over("memory", "http", stateless=True)
async def test_a_listener_gets_what_it_requested_under_its_id_and_nothing_else(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        number = await listen(raw, toolsListChanged=True)
        for list_name in ("resources", "prompts", "tools"):
            await add(raw, list_name, "newcomer")
        await raw.call("touch", {"uri": "test://watched"})
        await raw.receive_message(TOOLS)
        assert list_methods(list_messages_of(raw, number)) == [ACKNOWLEDGED, TOOLS]
        assert len(raw.list_notifications()) == 2


@proves("subscriptions/acknowledged-first")
@over("memory", "http", stateless=True)
async def test_the_acknowledgment_is_first_also_when_something_changes_at_once(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        number = await raw.send_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        for name in ("a1", "a2", "a3"):
            await add(raw, "tools", name)
        await raw.receive(lambda message: message.get("method") == ACKNOWLEDGED)
        assert list_methods(list_messages_of(raw, number))[0] == ACKNOWLEDGED


@proves("subscriptions/honored-subset")
@STATELESS_ONLY
async def test_the_acknowledgment_lists_the_honored_notifications(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        notifications = {"promptsListChanged": True, "resourceSubscriptions": ["test://watched"], "weather": True}
        await raw.send_request("subscriptions/listen", {"notifications": notifications})
        honored = (await raw.receive_message(ACKNOWLEDGED))["params"]["notifications"]
        assert honored == {"promptsListChanged": True, "resourceSubscriptions": ["test://watched"]}


@proves("subscriptions/several", "subscriptions/client-cancels")
@over("memory", "http", stateless=True)
async def test_subscriptions_are_distinguished_and_end_one_by_one(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        first, second = await listen(raw, toolsListChanged=True), await listen(raw, toolsListChanged=True)
        await add(raw, "tools", "one")
        for number in (first, second):
            await raw.receive(
                lambda message, number=number: message.get("method") == TOOLS and get_subscription_id(message) == number
            )
        await raw.cancel(first)
        third = await listen(raw, toolsListChanged=True)
        await add(raw, "tools", "two")
        for number in (second, third):
            await raw.receive(
                lambda message, number=number: message.get("method") == TOOLS and get_subscription_id(message) == number
            )
        assert list_methods(list_messages_of(raw, first)) == [ACKNOWLEDGED, TOOLS]
        assert [each for each in raw.received if each.get("id") == first] == []


@proves("subscriptions/graceful-end")
@over(*TRANSPORTS, stateless=True)
async def test_a_subscription_that_the_server_ends_gets_its_result(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        number = await listen(raw, toolsListChanged=True)
        if raw.transport == "stdio":
            assert await raw.close() == 0
        else:
            connected.end_listeners()
        result = (await raw.receive_response(number))["result"]
        assert (result["resultType"], result["_meta"][ID]) == ("complete", number)
        for cancelled in raw.list_notifications("notifications/cancelled"):
            assert cancelled["params"]["requestId"] == number


@proves("subscriptions/subscription-id")
@STATELESS_ONLY
async def test_the_id_is_the_requests_own_a_text_too(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        await raw.send_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="a text")
        assert get_subscription_id(await raw.receive_message(ACKNOWLEDGED)) == "a text"
        await add(raw, "tools", "newcomer")
        assert get_subscription_id(await raw.receive_message(TOOLS)) == "a text"
