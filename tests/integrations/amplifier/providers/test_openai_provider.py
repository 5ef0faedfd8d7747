"""provider-openai against a local server that speaks the Chat Completions API."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from mcp_bridge._integrations.amplifier import llm_errors
from mcp_bridge._integrations.amplifier.message_models import ChatRequest, Message, ToolCall, ToolSpec
from mcp_bridge._integrations.amplifier.providers import openai_provider
from mcp_bridge.amplifier.testing import TestCoordinator
from tests.kits.amplifier.model_server import ModelServer, Reply, serve_model

USAGE = {
    "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 2},
}  # fmt: skip
HEAD = {"id": "c1", "created": 0, "model": "gpt-5.5"}


def complete(content: str | None = None, *calls: tuple[str, str], finish: str = "stop", **message: Any) -> Reply:
    """A response with tool calls, each a name and its arguments as text."""
    tool_calls = [
        {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(calls)
    ]
    said = {"role": "assistant", "content": content, "refusal": None, **message}
    if calls:
        said["tool_calls"] = tool_calls
    choice = {"index": 0, "finish_reason": finish, "logprobs": None, "message": said}
    body = {**HEAD, "object": "chat.completion", "choices": [choice], "usage": USAGE}
    ChatCompletion.model_validate(body)
    return Reply(body)


def stream(*deltas: dict[str, Any], finish: str = "stop") -> Reply:
    chunks: list[Any] = [
        {**HEAD, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    chunks.append(
        {**HEAD, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    )
    chunks.append({**HEAD, "object": "chat.completion.chunk", "choices": [], "usage": USAGE})
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk)
    return Reply([*chunks, "[DONE]"])


OPENED: list[openai_provider.OpenAIProvider] = []


@pytest.fixture(autouse=True)
async def close_providers() -> AsyncIterator[None]:
    yield
    while OPENED:
        await OPENED.pop().close()


def create_provider(server: ModelServer, **config: Any) -> openai_provider.OpenAIProvider:
    options = openai_provider.OpenAIConfig(base_url=f"{server.url}/v1", timeout=5, **config)
    OPENED.append(openai_provider.OpenAIProvider(options, "sk-sample"))
    return OPENED[-1]


def ask(*messages: Message, **fields: Any) -> ChatRequest:
    return ChatRequest(messages=list(messages) or [Message(role="user", content="Hello")], **fields)


async def listen_to_nothing(part: str) -> None: ...


async def test_a_response_has_text_calls_and_usage() -> None:
    with serve_model(complete("I read it.", ("read", '{"path": "a.txt"}'), finish="tool_calls")) as server:
        provider = create_provider(server)
        tools = [ToolSpec(name="read", parameters={"type": "object"})]
        response = await provider.complete(ask(tools=tools, temperature=0.5, stop=["END"], max_output_tokens=50))
    assert provider.parse_tool_calls(response) == [ToolCall(id="call_0", name="read", arguments={"path": "a.txt"})]
    assert response.content[0].model_dump() == {"type": "text", "text": "I read it."}
    assert response.usage is not None
    assert response.usage.model_dump(exclude_none=True) == {
        "input_tokens": 10, "output_tokens": 5, "total_tokens": 15, "cache_read_tokens": 4, "reasoning_tokens": 2,
    }  # fmt: skip
    assert response.finish_reason == "tool_calls"
    sent = server.requests[0]
    assert (sent["temperature"], sent["max_completion_tokens"], sent["stop"]) == (0.5, 50, ["END"])
    assert sent["tools"][0]["function"]["name"] == "read"


async def test_a_stream_gives_the_same_as_a_single_response() -> None:
    received: list[str] = []

    async def listen(part: str) -> None:
        received.append(part)

    call = {"index": 0, "id": "call_0", "type": "function", "function": {"name": "read", "arguments": ""}}
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": "I read"},
        {"content": " it."},
        {"tool_calls": [call]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"path": '}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '"a.txt"}'}}]},
    ]
    replies = (
        stream(*deltas, finish="tool_calls"),
        complete("I read it.", ("read", '{"path": "a.txt"}'), finish="tool_calls"),
    )
    with serve_model(*replies) as server:
        provider = create_provider(server)
        assert await provider.complete(ask(), on_text=listen) == await provider.complete(ask())
    assert received == ["I read", " it."]


@pytest.mark.parametrize("listener", [None, listen_to_nothing])
async def test_a_truncated_response_is_returned_with_its_reason(listener: Any) -> None:
    reply = stream({"content": "Once upon"}, finish="length") if listener else complete("Once upon", finish="length")
    with serve_model(reply) as server:
        response = await create_provider(server).complete(ask(), on_text=listener)
    assert response.finish_reason == "length"
    assert response.content[0].model_dump()["text"] == "Once upon"


async def test_history_has_results_directly_after_their_calls() -> None:
    calls = [{"id": each, "name": "read", "arguments": {"path": each}} for each in ("1", "2")]
    history = [
        Message(role="system", content="You are a sample."),
        Message(role="user", content="Read both."),
        Message(role="assistant", content="", tool_calls=calls),
        Message(role="user", content="Hurry."),
        Message.model_validate({"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "one"}]}),
    ]
    with serve_model(complete("Done.")) as server:
        await create_provider(server).complete(ask(*history))
    sent = server.requests[0]["messages"]
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool", "tool", "user"]
    assert [message["content"] for message in sent[3:5]] == ["one", "The call did not complete."]
    assert json.loads(sent[2]["tool_calls"][0]["function"]["arguments"]) == {"path": "1"}


async def test_images_are_sent_as_urls() -> None:
    images = [
        {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "aWNvbg=="}},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/icon.png"}},
    ]
    with serve_model(complete("Icons.")) as server:
        await create_provider(server).complete(ask(Message.model_validate({"role": "user", "content": images})))
    urls = [part["image_url"]["url"] for part in server.requests[0]["messages"][0]["content"]]
    assert urls == ["data:image/gif;base64,aWNvbg==", "https://example.com/icon.png"]


async def test_options_of_compatible_endpoints() -> None:
    with serve_model(complete("Hello")) as server:
        config = {"legacy_max_tokens": True, "max_tokens": 70, "default_model": "local", "reasoning_effort": "low"}
        await create_provider(server, **config).complete(ask())
    sent = server.requests[0]
    assert (sent["model"], sent["max_tokens"], sent["reasoning_effort"]) == ("local", 70, "low")
    assert "max_completion_tokens" not in sent


def fail(status: int, code: str = "", text: str = "no", **headers: str) -> Reply:
    return Reply({"error": {"message": text, "type": code, "code": code}}, status, {"retry-after-ms": "1", **headers})


@pytest.mark.parametrize("status", [429, 500, 529])
async def test_transient_failures_are_repeated_within_the_budget(status: int) -> None:
    with serve_model(fail(status), fail(status), complete("Hello")) as server:
        response = await create_provider(server, max_retries=2).complete(ask())
    assert response.content[0].model_dump()["text"] == "Hello"


LONG = "This model's maximum context length is 128000 tokens."


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (fail(429, **{"retry-after": "7"}), llm_errors.RateLimitError),
        (fail(429, "insufficient_quota"), llm_errors.QuotaExceededError),
        (fail(503), llm_errors.ProviderUnavailableError),
        (fail(401), llm_errors.AuthenticationError),
        (fail(422), llm_errors.InvalidRequestError),
        (fail(400, "context_length_exceeded", LONG), llm_errors.ContextLengthError),
        (complete("x", finish="content_filter"), llm_errors.ContentFilterError),
        (complete(None, refusal="I will not."), llm_errors.ContentFilterError),
        (complete(None, ("read", '{"path": '), finish="tool_calls"), llm_errors.InvalidToolCallError),
        (complete(None, ("read", "[]"), finish="tool_calls"), llm_errors.InvalidToolCallError),
        (Reply({"choices": []}), llm_errors.StreamError),
        (Reply({"hello": "there"}), llm_errors.StreamError),
        (Reply(b"<html>"), llm_errors.StreamError),
    ],
)
async def test_errors_say_what_a_caller_can_do(reply: Reply, kind: type[llm_errors.LLMError]) -> None:
    with serve_model(reply) as server, pytest.raises(llm_errors.LLMError) as caught:
        await create_provider(server, max_retries=0).complete(ask())
    assert type(caught.value) is kind
    assert (caught.value.provider, caught.value.model) == ("openai", "gpt-5.5")
    assert "sk-sample" not in str(caught.value)


@pytest.mark.parametrize("body", [["{"], ["[1]"], []])
async def test_a_broken_stream_is_an_error(body: Any) -> None:
    with serve_model(Reply(body)) as server, pytest.raises(llm_errors.StreamError):
        await create_provider(server, max_retries=0).complete(ask(), on_text=listen_to_nothing)


async def test_models_are_listed() -> None:
    page = {"object": "list", "data": [{"id": "gpt-x", "object": "model", "created": 0, "owned_by": "x"}]}
    with serve_model(Reply(page)) as server:
        [model] = await create_provider(server, context_window=1000, max_tokens=10).list_models()
    assert (model.id, model.context_window, model.max_output_tokens) == ("gpt-x", 1000, 10)


async def test_without_a_key_the_provider_is_not_mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    coordinator = TestCoordinator()
    assert await openai_provider.mount(coordinator, {}) is None
    cleanup = await openai_provider.mount(coordinator, {"api_key": "sk-sample"})
    assert coordinator.get("providers")["openai"].get_info().credential_env_vars == ["OPENAI_API_KEY"]
    await cleanup()


async def test_a_stream_that_was_filtered_is_an_error() -> None:
    reply = stream({"content": "x"}, finish="content_filter")
    with serve_model(reply) as server, pytest.raises(llm_errors.ContentFilterError):
        await create_provider(server, max_retries=0).complete(ask(), on_text=listen_to_nothing)


async def test_images_of_results_follow_all_results() -> None:
    calls = [{"id": each, "tool": "draw", "arguments": {}} for each in ("1", "2")]
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aWNvbg=="}}
    history = [
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "a chart"}, image]},
        {"role": "tool", "tool_call_id": "2", "content": [image]},
        {"role": "user", "content": "What is it?"},
    ]
    with serve_model(complete("Done.")) as server:
        await create_provider(server).complete(ask(*map(Message.model_validate, history)))
    _, first, second, images, last = server.requests[0]["messages"]
    assert [first["content"], second["content"]] == ["a chart", "The images follow after the results."]
    assert [part["type"] for part in images["content"]] == ["text", "image_url", "image_url"]
    assert (images["role"], last["content"]) == ("user", "What is it?")


async def test_the_cost_follows_from_the_prices() -> None:
    with serve_model(complete("Hello")) as server:
        prices = {"gpt-5.5": {"input": 2, "output": 8, "cache_read": "0.5"}}
        response = await create_provider(server, prices=prices).complete(ask())
    assert response.usage is not None
    assert response.usage.cost_usd == Decimal("0.000054")
