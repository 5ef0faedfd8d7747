"""Durations are recorded once a meter provider is set, by the conventions of OpenTelemetry for MCP."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from mcp.shared.exceptions import MCPError
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client.parser import text_string_to_metric_families

from mcp_bridge import ToolError, ToolRegistry, tool
from mcp_bridge._app.serve import build_metrics, to_bridge
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.prompt import PromptEntry
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._server.instrumentation import Instrumentation
from mcp_bridge._transports.http.access import Access
from mcp_bridge._transports.http.app import HttpOptions
from mcp_bridge.testing import connect
from tests.kits.constants import HTTP_HEADERS
from tests.kits.http.http_hosting import IN_EVERY_HTTP_WAY, HttpWay, serve_http

ERAS = pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28")])


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemoryMetricReader]:
    """Yield a reader of the recorded metrics. It replaces the process' meter provider, which can be set only once."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    yield reader
    provider.shutdown()


def read_points(reader: InMemoryMetricReader, name: str) -> list[Any]:
    data = reader.get_metrics_data()
    scopes = [] if data is None else [each for resource in data.resource_metrics for each in resource.scope_metrics]
    return [point for scope in scopes for each in scope.metrics if each.name == name for point in each.data.data_points]


def read_operations(reader: InMemoryMetricReader, method: str) -> list[dict[str, Any]]:
    """Return the attributes of each series of a method."""
    points = read_points(reader, "mcp.server.operation.duration")
    return [dict(point.attributes) for point in points if point.attributes["mcp.method.name"] == method]


def make_registry() -> ToolRegistry:
    registry = ToolRegistry()

    @tool(registry=registry)
    def echo(text: str) -> str:
        """Return the text."""
        return text

    @tool(registry=registry)
    def fail() -> str:
        """Fail."""
        raise ToolError("No.", code="a code of its own")

    registry.publish("prompts", [], prompts=[PromptEntry("greet", lambda arguments: "Hello", "Greet.")])
    return registry


@ERAS
async def test_a_call_is_recorded_with_its_tool(reader: InMemoryMetricReader, mode: str, version: str) -> None:
    async with connect(make_registry(), mode=mode) as client:
        await client.call_tool("echo", {"text": "a"})
        await client.call_tool("echo", {"text": "b"})
    [attributes] = read_operations(reader, "tools/call")
    assert attributes == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": version,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "echo",
    }
    [point] = [
        each
        for each in read_points(reader, "mcp.server.operation.duration")
        if each.attributes["mcp.method.name"] == "tools/call"
    ]
    assert point.count == 2
    assert point.explicit_bounds[:3] == (0.01, 0.02, 0.05)


async def test_errors_have_a_type_and_a_code(reader: InMemoryMetricReader) -> None:
    async with connect(make_registry()) as client:
        await client.call_tool("fail", {})
        await client.call_tool("echo", {"text": 1})
        with pytest.raises(MCPError):
            await client.call_tool("unknown " * 100, {})
        with pytest.raises(MCPError):
            await client.read_resource("nothing://here")
    calls = {point.get("gen_ai.tool.name"): point for point in read_operations(reader, "tools/call")}
    assert (calls["fail"]["error.type"], calls["fail"]["mcp_bridge.error.code"]) == ("tool_error", "tool_error")
    assert calls["echo"]["mcp_bridge.error.code"] == "invalid_arguments"
    assert calls[None]["error.type"] == calls[None]["rpc.response.status_code"] == "-32602"
    [read] = read_operations(reader, "resources/read")
    assert read["error.type"] == "-32602"
    assert "mcp.resource.uri" not in read


async def test_only_published_prompts_are_named(reader: InMemoryMetricReader) -> None:
    async with connect(make_registry()) as client:
        await client.get_prompt("greet")
        with pytest.raises(MCPError):
            await client.get_prompt("unknown")
    assert [point.get("gen_ai.prompt.name") for point in read_operations(reader, "prompts/get")] == ["greet", None]


async def test_a_session_is_recorded_when_it_ends(reader: InMemoryMetricReader) -> None:
    async with connect(make_registry(), mode="legacy") as client:
        await client.list_tools()
        assert read_points(reader, "mcp.server.session.duration") == []
    [session] = read_points(reader, "mcp.server.session.duration")
    assert dict(session.attributes) == {"mcp.protocol.version": "2025-11-25"}
    [initialized] = read_operations(reader, "notifications/initialized")
    assert "error.type" not in initialized


async def test_the_stateless_era_has_no_sessions(reader: InMemoryMetricReader) -> None:
    async with connect(make_registry()) as client:
        await client.call_tool("echo", {"text": "a"})
    assert read_points(reader, "mcp.server.session.duration") == []


async def test_unknown_methods_do_not_become_attributes(reader: InMemoryMetricReader) -> None:
    async with serve_http(make_registry()) as (base, _), httpx2.AsyncClient() as http:
        await http.post(f"{base}/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "x" * 1000}, headers=HTTP_HEADERS)
    assert read_operations(reader, "x" * 1000) == []


def test_without_a_provider_nothing_is_measured() -> None:
    assert not Instrumentation(Redactor(), set(), lambda method, name: False).find_recorders()


def parse(text: str) -> dict[str, list[Any]]:
    return {family.name: family.samples for family in text_string_to_metric_families(text)}


@IN_EVERY_HTTP_WAY
async def test_prometheus_reads_the_same_durations(way: HttpWay) -> None:
    bridge = to_bridge(make_registry())
    access = Access.for_host("127.0.0.1", token="a-token-for-tests")
    options = HttpOptions(access=access, metrics=build_metrics(bridge))
    async with serve_http(bridge, options=options) as (base, _):
        async with way.connect(base, token="a-token-for-tests") as client:
            await client.call_tool("echo", {"text": "a"})
        async with httpx2.AsyncClient(headers={"Authorization": "Bearer a-token-for-tests"}) as http:
            response = await http.get(f"{base}/metrics")
    families = parse(response.text)
    counts = {
        sample.labels["mcp_method_name"]: sample
        for sample in families["mcp_server_operation_duration_seconds"]
        if sample.name.endswith("_count")
    }
    call = counts["tools/call"]
    assert call.value == 1
    assert (call.labels["gen_ai_tool_name"], call.labels["network_transport"]) == ("echo", "tcp")
    assert call.labels["error_type"] == ""
    assert families["process_cpu_seconds"][0].value > 0


async def test_metrics_need_the_token_of_the_server() -> None:
    bridge = to_bridge(make_registry())
    options = HttpOptions(access=Access.for_host("127.0.0.1", token="a-token-for-tests"), metrics=build_metrics(bridge))
    async with serve_http(bridge, options=options) as (base, _), httpx2.AsyncClient() as http:
        assert (await http.get(f"{base}/metrics")).status_code == 401
        authorized = {"Authorization": "Bearer a-token-for-tests"}
        assert (await http.post(f"{base}/metrics", headers=authorized)).status_code == 405


async def test_metrics_are_not_served_unless_they_are_asked_for() -> None:
    async with serve_http(make_registry()) as (base, _), httpx2.AsyncClient() as http:
        assert (await http.get(f"{base}/metrics")).status_code == 404


def test_a_missing_package_is_an_error_with_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp_bridge._server.prometheus", None)
    with pytest.raises(ConfigError, match=r"pip install 'mcp-tool-bridge\[prometheus\]'"):
        build_metrics(to_bridge(make_registry()))
