"""Secrets are redacted in everything that clients of both eras receive, and everything else is unchanged."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError

from mcp_bridge import CallContext, ToolCall, ToolEntry, ToolRegistry, ToolResult, asgi_app
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._app.serve import to_bridge
from mcp_bridge._contracts.source import Source
from mcp_bridge._engine.pipeline import Pipeline
from mcp_bridge._server.redaction import SecretRedaction
from mcp_bridge.questions import Link, Sampling
from mcp_bridge.serving import State
from mcp_bridge.sources import ResourceEntry
from tests.kits.constants import TIMEOUT
from tests.kits.wire.speaking import ERAS, build_registry, call, connect, list_tools

SECRET = "hunter2-and-more"
FORM = {"type": "object", "properties": {"x": {"type": "string", "title": SECRET}}}


async def ask_form(ctx: CallContext) -> Any:
    """Ask with a form."""
    return (await ctx.ask(f"Is it {SECRET}?", FORM)).content


async def ask_link(ctx: CallContext) -> Any:
    """Ask to open a page."""
    questions = {"": Link(f"Go with {SECRET}", f"https://example.org/?key={SECRET}")}
    return (await ctx.put(questions))[""].action


async def sample(ctx: CallContext) -> Any:
    """Ask a model."""
    return (await ctx.put({"": Sampling(f"What is {SECRET}?", max_tokens=9, system_prompt=SECRET)}))[""].text


Ask = Callable[[CallContext], Awaitable[Any]]


def build_asking_bridge(ask: Ask) -> Bridge:
    """Return a bridge with a tool that asks, and a secret."""

    async def handler(data: Any, ctx: CallContext) -> Any:
        return await ask(ctx)

    bridge = Bridge(build_registry(ToolEntry("t", "", handler)))
    bridge.hide_secrets([SECRET])
    return bridge


@ERAS
@pytest.mark.parametrize("ask", [ask_form, ask_link, sample])
async def test_questions_are_redacted_and_their_answers_arrive_unchanged(ask: Ask, mode: str) -> None:
    requests: list[str] = []

    async def elicit(_: Any, params: Any) -> Any:
        requests.append(params.model_dump_json())
        content = {"x": "an answer"} if params.mode == "form" else None
        return types.ElicitResult(action="accept", content=content)

    async def sampled(_: Any, params: Any) -> Any:
        requests.append(params.model_dump_json())
        text = types.TextContent(type="text", text="an answer")
        return types.CreateMessageResult(role="assistant", content=text, model="m")

    options = {"elicitation_callback": elicit, "sampling_callback": sampled}
    async with connect(build_asking_bridge(ask), mode=mode, **options) as client:
        answer = json.dumps(await call(client))
    assert "an answer" in answer or "accept" in answer
    assert "[secret]" in requests[0]
    assert SECRET not in requests[0]


@ERAS
async def test_what_is_hidden_while_a_client_is_connected_is_hidden_from_then_on(mode: str) -> None:
    bridge = Bridge(build_registry(ToolEntry("t", SECRET, lambda data: {SECRET: [SECRET]})))
    async with connect(bridge, mode=mode) as client:
        assert SECRET in json.dumps(await call(client))
        bridge.hide_secrets([SECRET])
        responses = json.dumps([await list_tools(client), await call(client)])
    assert SECRET not in responses
    assert responses.count("[secret]") >= 3


async def test_a_notice_of_a_resource_names_it_without_the_secret() -> None:
    registry = ToolRegistry()
    uri = f"notes://{SECRET}"
    registry.publish("s", [], resources=[ResourceEntry(uri, lambda data: "x")])
    bridge = Bridge(registry)
    bridge.hide_secrets([SECRET])
    notifications: list[str] = []
    has_notification = anyio.Event()

    async def listen(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            notifications.append(message.params.uri)
            has_notification.set()

    async with connect(bridge, mode="legacy", message_handler=listen) as client:
        request = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
        await client.session.send_request(request, types.EmptyResult)
        registry.resource_updated(uri)
        with anyio.fail_after(TIMEOUT):
            await has_notification.wait()
    assert notifications == ["notes://[secret]"]


@ERAS
async def test_an_error_outside_of_handlers_is_a_reference_in_both_eras(
    mode: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bridge = Bridge(build_registry(ToolEntry("t", "", lambda data: "x")))

    def broken(*args: Any) -> Any:
        raise RuntimeError(f"/a/path and {SECRET}")

    async with connect(bridge, mode=mode) as client:
        monkeypatch.setattr(bridge.endpoint.tools.index, "get_pages", broken)
        with pytest.raises(MCPError) as error:
            await client.list_tools()
    assert error.value.code == -32603
    assert "tools/list failed with an internal error (reference " in error.value.message
    assert SECRET not in error.value.message
    assert "/a/path and" in caplog.text


def test_a_sealed_state_is_left_whole() -> None:
    redaction = SecretRedaction()
    redaction.hide(["abcd"])
    state = "sealed-with-abcd-in-it"
    result = redaction.redact_result({"requestState": state, "inputRequests": {"q": "abcd"}})
    assert result == {"requestState": state, "inputRequests": {"q": "[secret]"}}


@pytest.mark.parametrize("word", ["inputSchema", "structuredContent", "resources/list", "additionalProperties", "user"])
def test_words_of_the_protocol_are_no_secrets(word: str) -> None:
    redaction = SecretRedaction()
    redaction.hide([word])
    assert redaction.redactor.is_empty


def test_the_token_and_the_keys_of_an_embedding_program_are_secrets() -> None:
    registry = build_registry(ToolEntry("t", "", lambda data: "x"))
    bridge = to_bridge(registry, token="a-token-of-4b", state=State(keys=["k" * 32]))
    redactor = bridge.endpoint.redactor
    assert redactor.redact_text(f"a-token-of-4b {'k' * 32}") == "[secret] [secret]"
    app = asgi_app(bridge, token="another-token")
    assert app.endpoint.redactor.redact_text("another-token") == "[secret]"


async def test_problems_of_sources_are_redacted() -> None:
    class Broken(Source):
        async def run(self, publish: Any) -> None:
            raise RuntimeError(f"no connection with {SECRET}")

    from mcp_bridge._app.bridge import AttachedSource

    bridge = Bridge(sources=[AttachedSource(source=Broken("broken"))])
    bridge.hide_secrets([SECRET])
    async with bridge.run_sources():
        with pytest.raises(Exception, match=r"no connection with \[secret\]"):
            await bridge.wait_until_started()


async def test_texts_of_policies_are_redacted() -> None:
    class SecretiveMiddleware:
        stage = 2

        async def __call__(self, call: ToolCall, ctx: CallContext, call_next: Any) -> ToolResult:
            return ToolResult(success=False, error=f"not with {SECRET}", code=f"no_{SECRET}")

    registry = ToolRegistry(pipeline=Pipeline([SecretiveMiddleware()]))  # type: ignore[list-item]
    registry.register(ToolEntry("t", "", lambda data: "x"))
    bridge = Bridge(registry)
    bridge.hide_secrets([SECRET])
    async with connect(bridge) as client:
        response = json.dumps(await call(client))
    assert "not with [secret]" in response
    assert SECRET not in response
