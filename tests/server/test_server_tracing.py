"""Messages are traced once OpenTelemetry is set up, by its conventions for MCP, and cost no span before."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from opentelemetry import baggage, trace
from opentelemetry.trace import StatusCode

from mcp_bridge import ToolRegistry, tool
from mcp_bridge._contracts.prompt import PromptEntry
from mcp_bridge._contracts.resource import ResourceEntry
from mcp_bridge._protocol.wire.meta_keys import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from mcp_bridge._protocol.wire.protocol_versions import STATELESS
from mcp_bridge._runtime.tasks import own_tasks
from mcp_bridge._server.endpoint import ClientConnection, Endpoint
from tests.kits.loops import BOTH_LOOPS
from tests.kits.peer import RecordingStream, let_run
from tests.kits.tracing import RecordedSpan, RecordingProvider

TRACE, SPAN = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7
TRACEPARENT = f"00-{TRACE:032x}-{SPAN:016x}-01"


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> RecordingProvider:
    """Return a tracer provider. It replaces that of the process, which can be set only once."""
    provider = RecordingProvider()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return provider


class TracedServer:
    """A server with some tools, and a raw client."""

    def __init__(self, client: ClientConnection, stream: RecordingStream, registry: ToolRegistry) -> None:
        self.client = client
        self.registry = registry
        self.stream = stream

    async def send(self, method: str, params: dict[str, Any], *, meta: dict[str, Any] | None = None) -> Any:
        """Send a request of the stateless era, and return the response."""
        meta = {PROTOCOL_VERSION: STATELESS, CLIENT_CAPABILITIES: {}, **(meta or {})}
        return await self.send_raw({"id": 7, "method": method, "params": {**params, "_meta": meta}})

    async def send_raw(self, members: dict[str, Any]) -> Any:
        self.client.receive({"jsonrpc": "2.0", **members})
        await let_run()
        return self.stream.responses[-1] if self.stream.responses else None


@asynccontextmanager
async def serve(**options: Any) -> AsyncIterator[TracedServer]:
    """Yield a server with three tools, a resource and a prompt."""
    registry = ToolRegistry()

    @tool(registry=registry)
    async def double(number: int) -> int:
        return number * 2

    @tool(registry=registry)
    async def wait() -> None:
        await anyio.sleep_forever()

    @tool(registry=registry)
    async def show_trace() -> str:
        await anyio.lowlevel.checkpoint()
        return f"{trace.get_current_span().get_span_context().span_id} {baggage.get_baggage('user')}"

    async def greet(arguments: Any) -> str:
        return "Hello"

    resource, prompt = ResourceEntry("test://a", greet), PromptEntry("greet", greet)
    registry.publish("others", [], resources=[resource], prompts=[prompt])
    endpoint = Endpoint(registry, **options)
    stream = RecordingStream()
    async with anyio.create_task_group() as group, own_tasks() as tasks:
        await group.start(endpoint.run)
        client = endpoint.connect(stream, tasks)
        try:
            yield TracedServer(client, stream, registry)
        finally:
            client.close()
            group.cancel_scope.cancel()


def find_only(provider: RecordingProvider) -> RecordedSpan:
    """Return the only span, and check that it has ended once."""
    (span,) = provider.spans
    assert span.ends == 1
    return span


@BOTH_LOOPS
async def test_a_call_has_a_span_with_the_attributes_of_the_conventions(provider: RecordingProvider) -> None:
    async with serve() as server:
        await server.send("tools/call", {"name": "double", "arguments": {"number": 1}})
        span = find_only(provider)
        assert (span.name, span.kind, span.status) == ("tools/call double", trace.SpanKind.SERVER, None)
        assert span.attributes == {
            "mcp.method.name": "tools/call",
            "mcp.protocol.version": STATELESS,
            "jsonrpc.request.id": "7",
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "double",
        }


@pytest.mark.parametrize(
    ("method", "params", "name", "attributes"),
    [
        ("prompts/get", {"name": "greet"}, "prompts/get greet", {"gen_ai.prompt.name": "greet"}),
        ("resources/read", {"uri": "test://a"}, "resources/read", {"mcp.resource.uri": "test://a"}),
        ("tools/list", {}, "tools/list", {}),
        ("server/discover", {}, "server/discover", {}),
    ],
)
async def test_a_span_names_what_the_request_is_about(
    provider: RecordingProvider, method: str, params: dict[str, Any], name: str, attributes: dict[str, str]
) -> None:
    async with serve() as server:
        assert "result" in await server.send(method, params)
        span = find_only(provider)
        common = {"mcp.method.name": method, "mcp.protocol.version": STATELESS, "jsonrpc.request.id": "7"}
        assert (span.name, span.attributes) == (name, common | attributes)


async def test_messages_of_a_session_name_it(provider: RecordingProvider) -> None:
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    async with serve() as server:
        await server.send_raw({"id": 1, "method": "initialize", "params": client})
        await server.send_raw({"method": "notifications/initialized"})
        await server.send_raw({"id": 2, "method": "tools/list"})
        assert [span.name for span in provider.spans] == ["initialize", "notifications/initialized", "tools/list"]
        assert len({span.attributes["mcp.session.id"] for span in provider.spans}) == 1
        assert provider.spans[2].attributes["mcp.protocol.version"] == "2025-06-18"
        assert "jsonrpc.request.id" not in provider.spans[1].attributes
        assert [span.ends for span in provider.spans] == [1, 1, 1]


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [("unknown", {}, "-32601"), ("tools/call", {"name": 5}, "-32602"), ("tools/call", {"name": "unknown"}, "-32602")],
)
async def test_an_error_response_marks_the_span(
    provider: RecordingProvider, method: str, params: dict[str, Any], code: str
) -> None:
    async with serve() as server:
        response = await server.send(method, params)
        span = find_only(provider)
        assert (span.attributes["error.type"], span.attributes["rpc.response.status_code"]) == (code, code)
        assert span.status == (StatusCode.ERROR, response["error"]["message"])


async def test_the_error_of_a_tool_marks_the_span(provider: RecordingProvider) -> None:
    async with serve() as server:
        response = await server.send("tools/call", {"name": "double", "arguments": {"number": "x"}})
        assert response["result"]["isError"]
        span = find_only(provider)
        assert (span.attributes["error.type"], span.status) == ("tool_error", (StatusCode.ERROR, None))


async def test_an_unexpected_error_marks_the_span(provider: RecordingProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> Any:
        raise LookupError("broken")

    async with serve() as server:
        monkeypatch.setattr(server.registry, "get_prepared", fail)
        response = await server.send("tools/call", {"name": "double", "arguments": {"number": 1}})
        span = find_only(provider)
        assert span.attributes["rpc.response.status_code"] == str(response["error"]["code"])
        assert span.attributes["error.type"] == "LookupError"
        assert [str(error) for error in span.errors] == ["broken"]


@BOTH_LOOPS
async def test_a_cancelled_call_ends_its_span_without_an_error(provider: RecordingProvider) -> None:
    async with serve() as server:
        await server.send("tools/call", {"name": "wait"})
        assert provider.spans[0].ends == 0
        await server.send_raw({"method": "notifications/cancelled", "params": {"requestId": 7}})
        assert find_only(provider).status is None


@BOTH_LOOPS
async def test_the_context_of_the_client_is_the_parent_and_reaches_the_tool(provider: RecordingProvider) -> None:
    meta = {"traceparent": TRACEPARENT, "tracestate": "a=b", "baggage": "user=alice"}
    async with serve() as server:
        response = await server.send("tools/call", {"name": "show_trace"}, meta=meta)
        span = find_only(provider)
        assert (span.parent.trace_id, span.parent.span_id) == (TRACE, SPAN)
        assert dict(span.parent.trace_state) == {"a": "b"}
        assert response["result"]["content"][0]["text"] == f"{span.get_span_context().span_id} alice"
        assert trace.get_current_span() is trace.INVALID_SPAN


@pytest.mark.parametrize("traceparent", ["", "00-zz", 5, None, ["00"], {"a": 1}, "0" * 10_000])
async def test_an_invalid_context_of_the_client_is_ignored(provider: RecordingProvider, traceparent: Any) -> None:
    async with serve() as server:
        response = await server.send("tools/list", {}, meta={"traceparent": traceparent, "baggage": traceparent})
        assert "result" in response
        assert not find_only(provider).parent.is_valid


async def test_the_span_around_the_server_is_linked_in_addition_to_the_context_of_the_client(
    provider: RecordingProvider,
) -> None:
    around = trace.NonRecordingSpan(trace.SpanContext(1, 2, is_remote=False))
    with trace.use_span(around):
        async with serve() as server:
            await server.send("tools/list", {}, meta={"traceparent": TRACEPARENT})
            await server.send("tools/list", {})
    linked, child = provider.spans
    assert (linked.parent.span_id, [link.span_id for link in linked.links]) == (SPAN, [2])
    assert (child.parent.span_id, child.links) == (2, [])


async def test_a_secret_in_an_error_is_redacted_in_the_span(provider: RecordingProvider) -> None:
    async with serve(secrets=["hunter2hunter2"]) as server:
        await server.send("tools/call", {"name": "hunter2hunter2"})
        span = find_only(provider)
        _, description = span.status or (None, "")
        assert description
        assert "hunter2hunter2" not in f"{description} {span.name} {span.attributes}"


async def test_a_name_of_megabytes_is_truncated_in_the_span(provider: RecordingProvider) -> None:
    async with serve() as server:
        await server.send("tools/call", {"name": "x" * 1_000_000})
        span = find_only(provider)
        assert max(len(span.name), len(span.attributes["gen_ai.tool.name"])) < 2000


PROGRAM = """
import sys
import anyio

from mcp_bridge import ToolRegistry, tool
from mcp_bridge._runtime.tasks import own_tasks
from mcp_bridge._server.endpoint import Endpoint
from tests.kits.peer import RecordingStream, let_run

registry = ToolRegistry()


@tool(registry=registry)
async def double(number: int) -> int:
    return number * 2


async def main():
    endpoint = Endpoint(registry)
    stream = RecordingStream()
    async with anyio.create_task_group() as group, own_tasks() as tasks:
        await group.start(endpoint.run)
        client = endpoint.connect(stream, tasks)
        await call(client)
        assert not any(name.startswith("opentelemetry") for name in sys.modules)
        from opentelemetry import trace
        await call(client)
        assert "opentelemetry.propagate" not in sys.modules
        from tests.kits.tracing import RecordingProvider
        provider = RecordingProvider()
        trace.set_tracer_provider(provider)
        await call(client)
        print([span.name for span in provider.spans], len(stream.responses))
        group.cancel_scope.cancel()


async def call(client):
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    params = {"name": "double", "arguments": {"number": 1}, "_meta": meta}
    client.receive({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    await let_run()


anyio.run(main)
"""


def test_calls_are_traced_once_a_provider_is_set_and_import_nothing_before() -> None:
    # A process of its own: a tracer provider can be set once.
    outcome = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert (outcome.returncode, outcome.stdout) == (0, "['tools/call double'] 3\n"), outcome.stderr
