"""The negotiation of versions and capabilities."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client.raw_client import Json
from tests.kits.constants import CLIENT_INFO, HANDSHAKE, META_PREFIX, STATELESS
from tests.kits.protocol.protocol_manifest import proves
from tests.kits.protocol.protocol_server import NAME
from tests.kits.protocol.protocol_ways import (
    EVERY_TRANSPORT,
    HANDSHAKE_ONLY,
    STATELESS_ONLY,
    TRANSPORTS,
    Connected,
    over,
)

OLDER = ("2024-11-05", "2025-03-26", "2025-06-18", HANDSHAKE)
PROMISES: dict[str, tuple[str, Json]] = {
    "tools": ("tools/list", {}),
    "resources": ("resources/list", {}),
    "prompts": ("prompts/list", {}),
    "completions": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "language", "value": ""}},
    ),
}


@proves("versions/discover")
@STATELESS_ONLY
@pytest.mark.parametrize("options", [{"instructions": "Be kind.", "title": "Tests"}])
async def test_discover_returns_versions_capabilities_and_server_info(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        discovery = await raw.get_result("server/discover")
        assert STATELESS in discovery["supportedVersions"]
        assert isinstance(discovery["capabilities"], dict)
        assert discovery["instructions"] == "Be kind."
        server = discovery["_meta"][f"{META_PREFIX}serverInfo"]
        assert (server["name"], server["version"], server["title"]) == (NAME, "1", "Tests")


@proves("versions/unsupported-version")
@STATELESS_ONLY
async def test_a_version_that_is_not_supported_is_rejected_with_those_that_are(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        # After this request the era of the connection is fixed.
        await raw.get_result("tools/list")
        for version in ("2099-01-01", "1900-01-01", "soon"):
            error = await raw.get_error("tools/list", meta={f"{META_PREFIX}protocolVersion": version})
            assert error["code"] == -32022
            assert error["data"]["requested"] == version
            assert STATELESS in error["data"]["supported"]
            assert version not in error["data"]["supported"]


@proves("versions/unsupported-version")
@over(*TRANSPORTS, stateless=True)
async def test_it_is_rejected_as_the_first_request_too(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        error = await raw.get_error("server/discover", meta={f"{META_PREFIX}protocolVersion": "2099-01-01"})
        assert error["code"] == -32022
        assert STATELESS in error["data"]["supported"]
        assert (await raw.get_result("server/discover"))["supportedVersions"]


@proves("versions/both-eras")
@over("memory", "http", "sse", stateless=True)
async def test_clients_of_both_eras_are_served_at_once(connected: Connected) -> None:
    async with connected.raw_client() as new, connected.other_era().raw_client() as old:
        waiting = await new.send_call("hold", {"name": "shared"})
        await old.call("wait_for", {"kind": "begun", "name": "shared"})
        await old.call("let_go", {"name": "shared"})
        assert (await new.receive_response(waiting))["result"]["resultType"] == "complete"
        assert "resultType" not in await old.call("echo", {"text": "hi"})


@proves("versions/initialize", "versions/same-version")
@over("memory", "http", stateless=False)
async def test_initialize_answers_with_the_version_that_was_asked_for(connected: Connected) -> None:
    for version in OLDER:
        welcome = await do_handshake(connected, version)
        assert welcome["protocolVersion"] == version
        assert welcome["serverInfo"]["name"] == NAME
        assert welcome["capabilities"]["tools"]


@proves("versions/other-version")
@HANDSHAKE_ONLY
async def test_initialize_answers_with_the_latest_version_when_it_does_not_know_the_one_asked_for(
    connected: Connected,
) -> None:
    for version in ("1999-01-01", "2099-01-01", STATELESS):
        assert (await do_handshake(connected, version))["protocolVersion"] == HANDSHAKE


async def do_handshake(connected: Connected, version: str) -> Json:
    """Return the result of the handshake for a new client of this version."""
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT_INFO}
    async with connected.raw_client(initialize=False) as raw:
        welcome: Json = await raw.get_result("initialize", params)
        return welcome


@proves("versions/ping")
@HANDSHAKE_ONLY
async def test_ping_is_answered_with_nothing_also_while_a_call_runs(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        running = await raw.send_call("hold", {"name": "slow"})
        await raw.call("wait_for", {"kind": "begun", "name": "slow"})
        assert await raw.get_result("ping") == {}
        await raw.call("let_go", {"name": "slow"})
        await raw.receive_response(running)


@proves(
    "versions/same-capabilities",
    "tools/capability",
    "resources/capability",
    "resources/embedded",
    "prompts/capability",
    "completion/capability",
    "utilities/log-capability",
)
async def test_what_is_served_is_declared_and_what_is_declared_is_served(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        server_capabilities = await get_capabilities(raw)
        assert server_capabilities["tools"] == {"listChanged": True}
        assert server_capabilities["resources"] == {"listChanged": True, "subscribe": True}
        assert server_capabilities["prompts"] == {"listChanged": True}
        assert "logging" in server_capabilities
        for name, (method, params) in PROMISES.items():
            assert name in server_capabilities
            await raw.get_result(method, params)
        if not connected.stateless:
            assert await raw.get_result("logging/setLevel", {"level": "error"}) == {}
            assert await raw.get_result("resources/subscribe", {"uri": "test://watched"}) == {}


async def get_capabilities(raw: Any) -> Json:
    """Return the capabilities of the server, from the handshake or from server/discover."""
    server_capabilities: Json = (await raw.get_result("server/discover") if raw.stateless else raw.initialize_result)[
        "capabilities"
    ]
    return server_capabilities


@EVERY_TRANSPORT
async def test_the_official_client_gets_the_same(connected: Connected) -> None:
    async with connected.client(mode="auto" if connected.stateless else "legacy") as client:
        assert (client.protocol_version == STATELESS) == connected.stateless
        assert client.server_info is not None
        assert client.server_info.name == NAME
        assert client.server_capabilities.tools is not None
        assert client.server_capabilities.tools.list_changed is True
