"""Resources of servers are read by every spelling of their URIs."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError

from mcp_bridge.testing import connect
from tests.kits.upstream.trust_kit import ScriptedGateway

TEMPLATES = ["docs://café/{name}", "blank://my file/{name}", "files://{p*}", "two://{a}{b}/end", "query://x{?a*}"]


@pytest.fixture
def gateway(tmp_path: Path) -> ScriptedGateway:
    gateway = ScriptedGateway(tmp_path)
    resources = [{"uri": uri, "name": uri} for uri in ("docs://café", "docs://my file", "docs://caf%C3%A9/%7Ex")]
    gateway.offer(resources=resources, resourceTemplates=[{"uriTemplate": text, "name": text} for text in TEMPLATES])
    return gateway


@pytest.mark.parametrize(
    ("uri", "requested"),
    [
        ("docs://caf%C3%A9", "docs://café"),
        ("docs://my%20file", "docs://my file"),
        ("docs://café/~x", "docs://caf%C3%A9/%7Ex"),
        ("docs://caf%C3%A9/a", "docs://café/a"),
        ("docs://café/b%20c", "docs://café/b%20c"),
        ("blank://my%20file/a", "blank://my file/a"),
        ("files://a/b,c", "files://a/b,c"),
        ("two://ab/end", "two://ab/end"),
        ("query://x?b=1", "query://x?b=1"),
    ],
)
async def test_only_listed_uris_reach_a_server(gateway: ScriptedGateway, uri: str, requested: str) -> None:
    async with connect(gateway.build()) as client:
        [contents] = (await client.read_resource(uri)).contents
    assert contents.text == requested  # type: ignore[union-attr]


async def test_templates_that_only_the_server_understands_are_listed(gateway: ScriptedGateway) -> None:
    bridge = gateway.build()
    async with connect(bridge) as client:
        templates = (await client.list_resource_templates()).resource_templates
    assert {template.uri_template for template in templates} == set(TEMPLATES)
    assert not bridge.problems.get("files")


@pytest.mark.parametrize("uri", ["files://./a", "files://a/%2E%2E/b", "query://x?a=.%2Fb", "files://%FF"])
async def test_an_ambiguous_uri_reaches_no_server(gateway: ScriptedGateway, uri: str) -> None:
    async with connect(gateway.build()) as client:
        with pytest.raises(MCPError, match=r"Resource not found: .*: it has an escape|is a step of its path"):
            await client.read_resource(uri)


async def test_policies_apply_to_templates_that_only_the_server_understands(gateway: ScriptedGateway) -> None:
    gateway.settings = {"policy": [{"deny": {"resources": "files://private/*"}}]}
    async with connect(gateway.build()) as client:
        assert (await client.read_resource("files://public/a")).contents
        for uri in ("files://private/a", "files://%70rivate/a", "files://private//a"):
            with pytest.raises(MCPError, match="was denied"):
                await client.read_resource(uri)
