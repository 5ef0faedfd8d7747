"""Checks the params of sampling/createMessage, so the author of a tool gets a clear error for a mistake.

A client would otherwise reject the request with an error of its own, or fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_bridge._json_schema.validator import Validator

_TEXT = {"type": "string"}
_OBJECT = {"type": "object"}
_NUMBER = {"type": "number"}
_BLOCKS: dict[str, dict[str, Any]] = {
    "text": {"text": _TEXT},
    "image": {"data": _TEXT, "mimeType": _TEXT},
    "audio": {"data": _TEXT, "mimeType": _TEXT},
    "tool_use": {"id": _TEXT, "name": _TEXT, "input": _OBJECT},
    "tool_result": {"toolUseId": _TEXT},
}
"""The types of content blocks, and the properties that each requires (2025-11-25, schema.ts,
SamplingMessageContentBlock)."""
_BLOCK = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": {"enum": list(_BLOCKS)}, "content": {"type": "array", "items": _OBJECT}},
    "allOf": [
        {
            "if": {"required": ["type"], "properties": {"type": {"const": kind}}},
            "then": {"required": list(properties), "properties": properties},
        }
        for kind, properties in _BLOCKS.items()
    ],
}
_MESSAGE = {
    "type": "object",
    "required": ["role", "content"],
    "properties": {"role": {"enum": ["user", "assistant"]}, "content": {"type": "array", "items": _BLOCK}},
}
_PREFERENCES = {
    "type": "object",
    "properties": {
        "hints": {"type": "array", "items": {"type": "object", "properties": {"name": _TEXT}}},
        "costPriority": _NUMBER,
        "speedPriority": _NUMBER,
        "intelligencePriority": _NUMBER,
    },
}
_TOOL = {
    "type": "object",
    "required": ["name", "inputSchema"],
    "properties": {
        "name": _TEXT,
        "title": _TEXT,
        "description": _TEXT,
        "inputSchema": _OBJECT,
        "outputSchema": _OBJECT,
        "annotations": _OBJECT,
        "icons": {"type": "array", "items": _OBJECT},
    },
}
_PARAMS = {
    "type": "object",
    "required": ["messages", "maxTokens"],
    "properties": {
        "messages": {"type": "array", "items": _MESSAGE},
        "maxTokens": {"type": "integer"},
        "systemPrompt": _TEXT,
        "temperature": _NUMBER,
        "stopSequences": {"type": "array", "items": _TEXT},
        "modelPreferences": _PREFERENCES,
        "includeContext": {"enum": ["none", "thisServer", "allServers"]},
        "metadata": _OBJECT,
        "tools": {"type": "array", "items": _TOOL},
        "toolChoice": {"type": "object", "properties": {"mode": {"enum": ["auto", "required", "none"]}}},
    },
}


def check_sampling_params(params: Mapping[str, Any]) -> None:
    """Raise ValueError with a line for each problem. Unknown keys are allowed."""
    messages = [_with_listed_content(message) for message in params["messages"]]
    if problems := Validator(_PARAMS).list_problems({**params, "messages": messages}):
        raise ValueError("the sampling request is not valid: " + "; ".join(problems))


def _with_listed_content(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message with a list of blocks as its content. A message may have a single block instead."""
    content = message.get("content")
    if isinstance(content, Mapping):
        return {**message, "content": [content]}
    return message
