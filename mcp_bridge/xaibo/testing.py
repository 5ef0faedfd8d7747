"""A tool provider for tests, which answers what it was given."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_bridge.xaibo.models import Tool, ToolResult


class MockToolProvider:
    """Lists `tools` and answers with `results` by the tool's name; an exception there is a failure with its text.

    `call_history` has each call as it came: the name, and the parameters without any default filled in.
    """

    def __init__(self, tools: list[Tool], results: dict[str, Any]) -> None:
        self.tools = tools
        self.results = results
        self.call_history: list[tuple[str, dict[str, Any]]] = []

    async def list_tools(self) -> list[Tool]:
        """The tools it was given."""
        return self.tools

    async def execute_tool(self, tool_name: str, parameters: dict[str, Any]) -> ToolResult:
        """The result it was given for this tool; a tool without one fails."""
        from mcp_bridge.xaibo.models import ToolResult

        self.call_history.append((tool_name, deepcopy(parameters)))
        if tool_name not in self.results:
            return ToolResult(success=False, error=f"Tool {tool_name} not mocked")
        answer = self.results[tool_name]
        if isinstance(answer, Exception):
            return ToolResult(success=False, error=str(answer))
        return ToolResult(success=True, result=answer)
