"""How the response of a model ended: whether it is complete, or truncated, refused or empty."""

from __future__ import annotations

from typing import Any

TRUNCATED = frozenset({"length", "max_tokens", "maxTokens"})
"""The reasons of OpenAI, Anthropic and MCP for a response that reached its maximum of tokens."""
_PROBLEMS = {
    **dict.fromkeys(TRUNCATED, "The model's response was truncated, because it reached its maximum of tokens."),
    "model_context_window_exceeded": "The model's response was truncated, because the model's window is full.",
    "refusal": "The model refused to respond.",
    "content_filter": "The model's response was filtered.",
}


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
