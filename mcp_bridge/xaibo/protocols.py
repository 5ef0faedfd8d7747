"""What a tool provider and a language model are: any object with these methods, with or without `async`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from mcp_bridge.xaibo.llm import LLMMessage, LLMOptions, LLMResponse
    from mcp_bridge.xaibo.models import Tool, ToolResult


@runtime_checkable
class ToolProviderProtocol(Protocol):
    """Has tools and runs them. `isinstance` asks for the methods alone, so a call may answer without a coroutine."""

    async def list_tools(self) -> list[Tool]:
        """All tools of this provider."""
        ...

    async def execute_tool(self, tool_name: str, parameters: dict[str, Any]) -> ToolResult:
        """Run one. Raises ToolNotFoundError, ToolParameterError or ToolExecutionError, or says it in the result."""
        ...


@runtime_checkable
class LLMProtocol(Protocol):
    """A language model."""

    async def generate(self, messages: list[LLMMessage], options: LLMOptions | None = None) -> LLMResponse:
        """The model's answer to a conversation."""
        ...

    def generate_stream(self, messages: list[LLMMessage], options: LLMOptions | None = None) -> AsyncIterator[str]:
        """The same, piece by piece."""
        ...
