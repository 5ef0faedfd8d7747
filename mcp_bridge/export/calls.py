"""A model's call of an exported tool."""

from __future__ import annotations

from dataclasses import dataclass

from mcp_bridge.contracts.errors import CallError
from mcp_bridge.contracts.tool import ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall(ToolCall):
    """A call as the registry takes it: `name` is the registered tool's, `arguments` are what its handler gets.

    `exported` is the name that the model used, `model_id` the id that it gave (Gemini and Ollama may give none).
    `refusal` is why the call cannot be made at all: arguments that are no JSON, a tool that was not exported.
    """

    exported: str
    model_id: str | None = None
    refusal: CallError | None = None
