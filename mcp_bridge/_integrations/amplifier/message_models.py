"""Amplifier's messages: requests to providers and their responses (REQUEST_ENVELOPE_V1)."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

TRUNCATED = frozenset({"length", "max_tokens", "maxTokens"})
"""The values of `finish_reason` for a response that reached its maximum of tokens: OpenAI's, Anthropic's and MCP's."""
_PROBLEMS = {
    **dict.fromkeys(TRUNCATED, "The model's response was truncated, because it reached its maximum of tokens."),
    "model_context_window_exceeded": "The model's response was truncated, because the model's window is full.",
    "refusal": "The model refused to respond.",
    "content_filter": "The model's response was filtered.",
}


class Envelope(BaseModel):
    """The base of messages. It keeps additional keys of providers."""

    model_config = ConfigDict(extra="allow")


class TextBlock(Envelope):
    """Text."""

    type: Literal["text"] = "text"
    text: str


class ThinkingBlock(Envelope):
    """A model's reasoning. Later requests must return the signature to the provider unchanged."""

    type: Literal["thinking"] = "thinking"
    thinking: str
    signature: str | None = None


class RedactedThinkingBlock(Envelope):
    """Encrypted reasoning. Later requests must return it to the provider unchanged."""

    type: Literal["redacted_thinking"] = "redacted_thinking"
    data: str


class ReasoningBlock(Envelope):
    """Reasoning in the form of OpenAI's models."""

    type: Literal["reasoning"] = "reasoning"
    content: list[Any]
    summary: list[Any]


class ToolCallBlock(Envelope):
    """A tool call that a model requests."""

    type: Literal["tool_call"] = "tool_call"
    id: str
    name: str
    input: dict[str, Any] = Field(default_factory=dict)


class ToolResultBlock(Envelope):
    """The result of a tool call."""

    type: Literal["tool_result"] = "tool_result"
    tool_call_id: str
    output: Any = None


class ImageBlock(Envelope):
    """An image; `source` has its bytes or their location."""

    type: Literal["image"] = "image"
    source: dict[str, Any]


Block = Annotated[
    TextBlock | ThinkingBlock | RedactedThinkingBlock | ReasoningBlock | ToolCallBlock | ToolResultBlock | ImageBlock,
    Field(discriminator="type"),
]


class Message(Envelope):
    """One message of a conversation. Its content is text, or blocks.

    >>> call = ToolCallBlock(id="1", name="forecast", input={"city": "Ulm"})
    >>> image = ImageBlock(source={"type": "url", "url": "https://example.com/radar.png"})
    >>> reasoning = [ThinkingBlock(thinking="A tool knows."), RedactedThinkingBlock(data="..."),
    ...     ReasoningBlock(content=["A tool knows."], summary=[])]
    >>> Message(role="assistant", content=[*reasoning, TextBlock(text="I will look."), image, call]).content[-1].name
    'forecast'
    >>> Message(role="tool", content=[ToolResultBlock(tool_call_id="1", output="rain")]).content[0].output
    'rain'
    """

    role: Literal["system", "developer", "user", "assistant", "function", "tool"]
    content: str | list[Block]
    name: str | None = None
    tool_call_id: str | None = None
    metadata: dict[str, Any] | None = None


class ToolSpec(Envelope):
    """A tool as declared to a provider; `parameters` is its JSON Schema."""

    name: str
    parameters: dict[str, Any] = Field(default_factory=dict)
    description: str | None = None


class ToolCall(BaseModel):
    """A tool call; `id` correlates it with its result."""

    id: str
    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field as a mapping would: Amplifier's `loop-basic` calls this method if `arguments` is empty."""
        return getattr(self, name, default)


class Usage(Envelope):
    """The tokens of one completion, and its cost in US dollars if that is known."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    reasoning_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cost_usd: Decimal | None = None


class ChatRequest(Envelope):
    """A completion request to a provider; `timeout` is in seconds.

    >>> tool = ToolSpec(name="forecast", parameters={"type": "object"})
    >>> ChatRequest(messages=[Message(role="user", content="Will it rain?")], tools=[tool]).tools[0].name
    'forecast'
    """

    messages: list[Message]
    tools: list[ToolSpec] | None = None
    tool_choice: str | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    model: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    stop: list[str] | None = None
    reasoning_effort: str | None = None
    conversation_id: str | None = None
    metadata: dict[str, Any] | None = None
    stream: bool | None = False
    timeout: float | None = None


class ChatResponse(Envelope):
    """A completion.

    >>> call = ToolCall(id="1", name="forecast", arguments={"city": "Ulm"})
    >>> usage = Usage(input_tokens=20, output_tokens=5, total_tokens=25)
    >>> ChatResponse(content=[], tool_calls=[call], usage=usage).tool_calls[0].arguments
    {'city': 'Ulm'}
    """

    content: list[Block]
    tool_calls: list[ToolCall] | None = None
    usage: Usage | None = None
    finish_reason: str | None = None
    metadata: dict[str, Any] | None = None


def describe_unfinished(response: Any) -> str:
    """Return why a response is no final response; empty if it is complete or requests tool calls."""
    problem = _PROBLEMS.get(str(getattr(response, "finish_reason", None)), "")
    if problem or getattr(response, "tool_calls", None):
        return problem
    content = getattr(response, "content", None)
    if isinstance(content, str):
        is_empty = not content.strip()
    else:
        is_empty = not any(_has_content(block) for block in content or ())
    return "The model's response was empty." if is_empty else ""


def _has_content(block: Any) -> bool:
    text = getattr(block, "text", None)
    return bool(text.strip()) if isinstance(text, str) else getattr(block, "type", None) == "tool_call"
