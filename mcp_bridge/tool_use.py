"""The complete tool_use API: registry, decorator, validation, chains and their results."""

from mcp_bridge._contracts.tool import ToolDefinition, ToolEntry
from mcp_bridge._contracts.tool_use_results import Result, ResultStatus, ValidationResult
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._engine.tool_use.chain import ToolChain
from mcp_bridge._engine.tool_use.decorator import tool
from mcp_bridge._engine.tool_use.steps import ChainResult, ChainStep
from mcp_bridge._engine.tool_use.validation import validate_input, validate_output

__all__ = [
    "ChainResult",
    "ChainStep",
    "Result",
    "ResultStatus",
    "ToolChain",
    "ToolDefinition",
    "ToolEntry",
    "ToolRegistry",
    "ValidationResult",
    "tool",
    "validate_input",
    "validate_output",
]
