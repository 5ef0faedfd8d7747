"""Xaibo's protocols for tool providers and language models, the errors of providers, and a provider for tests.

They have the names and shapes of `xaibo.core.protocols`, so that providers can be written without xaibo.
`mcp_bridge.xaibo` publishes them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from mcp_bridge._integrations.xaibo.models import LLMMessage, LLMOptions, LLMResponse, Tool, ToolResult


@runtime_checkable
class ToolProviderProtocol(Protocol):
    """Lists and executes tools. Its methods may also be synchronous, and `isinstance` checks only that they exist.

    >>> isinstance(MockToolProvider([], {}), ToolProviderProtocol)
    True
    """

    async def list_tools(self) -> list[Tool]:
        """Return all tools of this provider."""
        ...

    async def execute_tool(self, tool_name: str, parameters: dict[str, Any]) -> ToolResult:
        """Run a tool. A failure is a result, or ToolNotFoundError, ToolParameterError or ToolExecutionError."""
        ...


@runtime_checkable
class LLMProtocol(Protocol):
    """A language model.

    >>> class Echo:
    ...     async def generate(self, messages, options=None):
    ...         return LLMResponse(content=messages[-1].content[0].text)
    ...     async def generate_stream(self, messages, options=None):
    ...         yield messages[-1].content[0].text
    >>> isinstance(Echo(), LLMProtocol)
    True
    """

    async def generate(self, messages: list[LLMMessage], options: LLMOptions | None = None) -> LLMResponse:
        """Return the model's response to a conversation."""
        ...

    def generate_stream(self, messages: list[LLMMessage], options: LLMOptions | None = None) -> AsyncIterator[str]:
        """Yield the response in pieces."""
        ...


class ToolError(Exception):
    """The base of all errors of a provider. Their text is shown to the model unchanged.

    >>> [issubclass(error, ToolError) for error in (ToolNotFoundError, ToolExecutionError, ToolParameterError)]
    [True, True, True]
    """


class ToolNotFoundError(ToolError):
    """The provider has no tool of this name."""


class ToolExecutionError(ToolError):
    """The tool failed."""


class ToolParameterError(ToolError):
    """The tool cannot run with these parameters."""


class MockToolProvider:
    """A provider for tests. It lists `tools`, and returns the value in `results` for the name of a tool.

    If this value is an exception, the result is a failure. `call_history` records the name and the parameters of each
    call. Defaults of parameters are not added.

    >>> import asyncio
    >>> provider = MockToolProvider([], {"forecast": "rain"})
    >>> asyncio.run(provider.execute_tool("forecast", {"city": "Ulm"})).result
    'rain'
    >>> provider.call_history
    [('forecast', {'city': 'Ulm'})]
    """

    def __init__(self, tools: list[Tool], results: dict[str, Any]) -> None:
        self.tools = tools
        self.results = results
        self.call_history: list[tuple[str, dict[str, Any]]] = []

    async def list_tools(self) -> list[Tool]:
        """Return the tools of the constructor."""
        return self.tools

    async def execute_tool(self, tool_name: str, parameters: dict[str, Any]) -> ToolResult:
        """Return the result for this tool. A tool without a result fails."""
        from mcp_bridge._integrations.xaibo.models import ToolResult

        self.call_history.append((tool_name, deepcopy(parameters)))
        if tool_name not in self.results:
            return ToolResult(success=False, error=f"Tool {tool_name} not mocked")
        result = self.results[tool_name]
        if isinstance(result, Exception):
            return ToolResult(success=False, error=str(result))
        return ToolResult(success=True, result=result)
