"""provider-anthropic against a local server that speaks the Messages API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest
from anthropic.types import Message as AnthropicMessage

from mcp_bridge._integrations.amplifier import llm_errors
from mcp_bridge._integrations.amplifier.message_models import ChatRequest, Message, ToolCall, ToolSpec
from mcp_bridge._integrations.amplifier.providers import anthropic_provider
from mcp_bridge.amplifier.testing import EventRecorder, TestCoordinator
from tests.kits.amplifier.model_server import ModelServer, Reply, serve_model

USAGE = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2}
MESSAGE: dict[str, Any] = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5", "content": [],
    "stop_reason": None, "stop_sequence": None, "usage": USAGE,
}  # fmt: skip
THINKING = {"type": "thinking", "thinking": "", "signature": ""}
TOOL = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}


def stream(*blocks: tuple[dict[str, Any], list[dict[str, Any]]], stop: str = "end_turn") -> Reply:
    """A response as a stream of blocks, each with its deltas."""
    AnthropicMessage.model_validate(MESSAGE)
    events: list[Any] = [{"type": "message_start", "message": MESSAGE}]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 7}})
    return Reply([*events, {"type": "message_stop"}])


def text(*parts: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": part} for part in parts]


OPENED: list[anthropic_provider.AnthropicProvider] = []


@pytest.fixture(autouse=True)
async def close_providers() -> AsyncIterator[None]:
    yield
    while OPENED:
        await OPENED.pop().close()


def create_provider(server: ModelServer, **config: Any) -> anthropic_provider.AnthropicProvider:
    options = anthropic_provider.AnthropicConfig(base_url=server.url, timeout=5, **config)
    OPENED.append(anthropic_provider.AnthropicProvider(options, "sk-ant-sample"))
    return OPENED[-1]


def ask(*messages: Message, **fields: Any) -> ChatRequest:
    return ChatRequest(messages=list(messages) or [Message(role="user", content="Hello")], **fields)


async def test_text_arrives_as_it_comes_and_usage_counts_cached_tokens() -> None:
    received: list[str] = []

    async def listen(part: str) -> None:
        received.append(part)

    with serve_model(stream(text("Hel", "lo"))) as server:
        response = await create_provider(server).complete(ask(), on_text=listen)
    assert received == ["Hel", "lo"]
    assert [block.model_dump() for block in response.content] == [{"type": "text", "text": "Hello"}]
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens) == (15, 7, 22)
    assert (response.usage.cache_read_tokens, response.usage.cache_write_tokens) == (3, 2)
    assert response.finish_reason == "end_turn"


async def test_thinking_keeps_its_signature_and_is_sent_back_unchanged() -> None:
    thinking = [
        {"type": "thinking_delta", "thinking": "The user wants a file."},
        {"type": "signature_delta", "signature": "c2lnbmF0dXJl"},
    ]
    redacted = {"type": "redacted_thinking", "data": "ZGF0YQ=="}
    call = [{"type": "input_json_delta", "partial_json": part} for part in ('{"path":', ' "a.txt"}')]
    first = stream((THINKING, thinking), (redacted, []), text("I read it."), (TOOL, call), stop="tool_use")
    with serve_model(first, stream(text("It is empty."))) as server:
        provider = create_provider(server)
        tools = [ToolSpec(name="read", description="Read a file.", parameters={"type": "object"})]
        response = await provider.complete(ask(tools=tools))
        assert provider.parse_tool_calls(response) == [ToolCall(id="toolu_1", name="read", arguments={"path": "a.txt"})]
        history = [
            Message(role="system", content="You are a sample."),
            Message(role="user", content="Hello"),
            Message(role="assistant", content=response.content),
            Message(role="tool", tool_call_id="toolu_1", content="(empty)"),
        ]
        await provider.complete(ask(*history, tools=tools, temperature=0.5, max_output_tokens=50, stop=["END"]))
    sent = server.requests[1]
    assert sent["system"] == "You are a sample."
    assert (sent["temperature"], sent["max_tokens"], sent["stop_sequences"]) == (0.5, 50, ["END"])
    assert sent["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "The user wants a file.", "signature": "c2lnbmF0dXJl"},
        redacted,
        {"type": "text", "text": "I read it."},
        {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a.txt"}},
    ]
    assert sent["messages"][2] == {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "(empty)"}],
    }


async def test_calls_without_results_and_results_without_calls_are_repaired_before_sending() -> None:
    calls = [{"id": each, "tool": "read", "arguments": {"path": each}} for each in ("1", "2")]
    history = [
        Message(role="user", content="Read both."),
        Message(role="assistant", content="", tool_calls=calls),  # as loops store them
        Message(role="user", content="Hurry."),
        Message(role="tool", tool_call_id="1", content="one"),
        Message(role="tool", tool_call_id="lost", content="whose?"),
    ]
    with serve_model(stream(text("Done."))) as server:
        await create_provider(server).complete(ask(*history))
    assert [turn["role"] for turn in server.requests[0]["messages"]] == ["user", "assistant", "user"]
    assert server.requests[0]["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "1", "content": "one"},
        {"type": "tool_result", "tool_use_id": "2", "content": "The call did not complete."},
        {"type": "text", "text": "Hurry."},
    ]


async def test_images_are_sent() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aWNvbg=="}}
    with serve_model(stream(text("An icon."))) as server:
        request = ask(Message.model_validate({"role": "user", "content": [{"type": "text", "text": "What?"}, image]}))
        await create_provider(server).complete(request)
    assert server.requests[0]["messages"][0]["content"][1] == image


def fail(status: int, kind: str = "api_error", text: str = "no", **headers: str) -> Reply:
    return Reply(
        {"type": "error", "error": {"type": kind, "message": text}}, status, {"retry-after-ms": "1", **headers}
    )


@pytest.mark.parametrize("status", [429, 500, 529])
async def test_transient_failures_are_repeated_within_the_budget(status: int) -> None:
    with serve_model(fail(status), fail(status), stream(text("Hello"))) as server:
        response = await create_provider(server, max_retries=2).complete(ask())
    assert response.content[0].model_dump()["text"] == "Hello"
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("reply", "kind", "retryable"),
    [
        (fail(429, "rate_limit_error", **{"retry-after": "7"}), llm_errors.RateLimitError, True),
        (fail(500), llm_errors.ProviderUnavailableError, True),
        (fail(529, "overloaded_error"), llm_errors.ProviderUnavailableError, True),
        (fail(401), llm_errors.AuthenticationError, False),
        (fail(403), llm_errors.AccessDeniedError, False),
        (fail(404), llm_errors.NotFoundError, False),
        (fail(400), llm_errors.InvalidRequestError, False),
        (fail(400, text="prompt is too long: 200001 tokens"), llm_errors.ContextLengthError, False),
        (fail(413), llm_errors.ContextLengthError, False),
        (Reply([{"type": "error", "error": {"type": "overloaded_error", "message": "no"}}]), llm_errors.LLMError, None),
        (Reply(b"<html>"), llm_errors.StreamError, True),
        (Reply(["{"]), llm_errors.StreamError, True),
        (Reply([]), llm_errors.StreamError, True),
    ],
)
async def test_errors_say_what_a_caller_can_do(reply: Reply, kind: type[llm_errors.LLMError], retryable: Any) -> None:
    with serve_model(reply) as server, pytest.raises(kind) as caught:
        await create_provider(server, max_retries=0).complete(ask())
    assert type(caught.value) is kind or retryable is None
    assert caught.value.retryable is retryable or retryable is None
    assert (caught.value.provider, caught.value.model) == ("anthropic", "claude-sonnet-5-5")
    assert caught.value.retry_after == (7.0 if kind is llm_errors.RateLimitError else None)
    assert "sk-ant-sample" not in str(caught.value)


async def test_an_endpoint_that_does_not_exist_is_a_network_error() -> None:
    with serve_model() as server:
        provider = create_provider(server, max_retries=0)
    with pytest.raises(llm_errors.NetworkError):
        await provider.complete(ask())


async def test_models_have_their_sizes() -> None:
    model = {"id": "claude-x", "type": "model", "display_name": "Claude X", "created_at": "2026-01-01T00:00:00Z"}
    sizes = {"max_input_tokens": 500_000, "max_tokens": 64_000, "capabilities": None}
    page = {"data": [{**model, **sizes}, model], "has_more": False, "first_id": None, "last_id": None}
    with serve_model(Reply(page)) as server:
        first, second = await create_provider(server).list_models()
    assert (first.id, first.display_name, first.context_window, first.max_output_tokens) == (
        "claude-x", "Claude X", 500_000, 64_000,
    )  # fmt: skip
    assert second.context_window == 200_000


async def test_without_a_key_the_provider_is_not_mounted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    coordinator = TestCoordinator()
    assert await anthropic_provider.mount(coordinator, {}) is None
    assert not coordinator.get("providers")
    assert "the provider is not mounted: set ANTHROPIC_API_KEY" in caplog.text
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-sample")
    cleanup = await anthropic_provider.mount(coordinator, {"max_tokens": 100})
    assert coordinator.get("providers")["anthropic"].get_info().defaults["max_output_tokens"] == 100
    await cleanup()


async def test_a_refusal_is_an_error() -> None:
    reply = stream(text("I will not."), stop="refusal")
    with (
        serve_model(reply) as server,
        pytest.raises(llm_errors.ContentFilterError, match="the model refused to respond"),
    ):
        await create_provider(server).complete(ask())


async def test_a_truncated_tool_call_is_left_out() -> None:
    call = [{"type": "input_json_delta", "partial_json": '{"path": "/home/a'}]
    with serve_model(stream(text("I read it."), (TOOL, call), stop="max_tokens")) as server:
        response = await create_provider(server).complete(ask())
    assert (response.finish_reason, response.tool_calls) == ("max_tokens", None)
    assert [block.type for block in response.content] == ["text"]


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aWNvbg=="}}


async def test_results_are_sent_with_their_images_and_errors() -> None:
    call = {"type": "tool_call", "id": "1", "name": "draw", "input": {}}
    content = [{"type": "text", "text": "Error: it is broken"}, IMAGE]
    history = [
        {"role": "assistant", "content": [call]},
        {"role": "tool", "tool_call_id": "1", "content": content, "is_error": True},
    ]
    with serve_model(stream(text("Done."))) as server:
        await create_provider(server).complete(ask(*map(Message.model_validate, history)))
    [result] = server.requests[0]["messages"][-1]["content"]
    assert result == {"type": "tool_result", "tool_use_id": "1", "content": content, "is_error": True}


async def test_calls_with_one_id_are_sent_with_distinct_ids_and_their_own_results() -> None:
    calls = [{"id": "call_0", "tool": name, "arguments": {}} for name in ("read", "list")]
    history = [
        Message(role="assistant", content="", tool_calls=calls),
        Message(role="tool", tool_call_id="call_0", content="a file"),
        Message(role="tool", tool_call_id="call_0", content="a folder"),
        Message(role="assistant", content="I go on.", tool_calls=calls[:1]),
        Message(role="tool", tool_call_id="call_0", content="another file"),
    ]
    with serve_model(stream(text("Done."))) as server:
        await create_provider(server).complete(ask(*history))
    blocks = [block for turn in server.requests[0]["messages"] for block in turn["content"]]
    assert [(block["id"], block["name"]) for block in blocks if block["type"] == "tool_use"] == [
        ("call_0", "read"), ("call_0_2", "list"), ("call_0_3", "read"),
    ]  # fmt: skip
    assert [(block["tool_use_id"], block["content"]) for block in blocks if block["type"] == "tool_result"] == [
        ("call_0", "a file"), ("call_0_2", "a folder"), ("call_0_3", "another file"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("prices", "cost"),
    [
        ({"claude-*": {"input": 3, "output": 15}}, "0.00015"),
        ({"claude-sonnet-5-5": {"input": 3, "output": 15, "cache_read": "0.3", "cache_write": "3.75"}}, "0.0001434"),
        ({"gpt-*": {"input": 3, "output": 15}}, None),
    ],
)
async def test_the_cost_follows_from_the_prices(prices: dict[str, Any], cost: str | None) -> None:
    with serve_model(stream(text("Hello"))) as server:
        provider = create_provider(server, prices=prices)
        response = await provider.complete(ask())
    assert response.usage is not None
    assert response.usage.cost_usd == (None if cost is None else Decimal(cost))
    assert provider.has_price() == (cost is not None)


async def test_the_events_of_requests_are_emitted() -> None:
    recorder, coordinator = EventRecorder(), TestCoordinator()
    for event in ("llm:request", "llm:response", "provider:tool_sequence_repaired"):
        coordinator.hooks.register(event, recorder)
    with serve_model(stream(text("Hello")), fail(400)) as server:
        config = {"api_key": "sk-ant-sample", "base_url": server.url, "max_retries": 0}
        cleanup = await anthropic_provider.mount(coordinator, config)
        provider = coordinator.get("providers")["anthropic"]
        call = Message(role="assistant", content="", tool_calls=[{"id": "1", "tool": "read", "arguments": {}}])
        await provider.complete(ask(call))
        with pytest.raises(llm_errors.InvalidRequestError):
            await provider.complete(ask(model="claude-x"))
        await cleanup()
    names = [name for name, _ in recorder.events]
    assert names == ["provider:tool_sequence_repaired", *["llm:request", "llm:response"] * 2]
    repaired, asked, answered, _, failed = (data for _, data in recorder.events)
    assert repaired["repairs"] == [{"tool_call_id": "1", "tool_name": "read"}]
    assert (asked["provider"], asked["model"], asked["message_count"]) == ("anthropic", "claude-sonnet-5-5", 1)
    assert (answered["status"], answered["usage"]["total_tokens"]) == ("ok", 22)
    assert (failed["status"], failed["error_type"], failed["model"]) == ("error", "InvalidRequestError", "claude-x")
    assert failed["duration_ms"] >= 0
    assert "llm:request" in (await coordinator.collect_contributions("observability.events"))[0]
