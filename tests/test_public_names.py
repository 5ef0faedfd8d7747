"""The public names: these and no others."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import mcp_bridge
import mcp_bridge.tool_use

PUBLIC = [
    "Answer",
    "Audio",
    "BridgeError",
    "CallContext",
    "ChainStep",
    "Depends",
    "EmbeddedResource",
    "Form",
    "Header",
    "Image",
    "Message",
    "Middleware",
    "ResourceLink",
    "Text",
    "ToolCall",
    "ToolChain",
    "ToolDefinition",
    "ToolEntry",
    "ToolError",
    "ToolRegistry",
    "ToolResult",
    "__version__",
    "asgi_app",
    "open_bridge",
    "prompt",
    "resource",
    "serve",
    "tool",
]
TOOL_USE = [
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


def test_the_public_names_are_exactly_these() -> None:
    assert mcp_bridge.__all__ == PUBLIC == sorted(PUBLIC)
    assert mcp_bridge.tool_use.__all__ == TOOL_USE == sorted(TOOL_USE)
    assert dir(mcp_bridge) == PUBLIC


def test_every_public_name_is_available_and_documented() -> None:
    values = {name: getattr(mcp_bridge, name) for name in PUBLIC}
    assert [name for name, value in values.items() if not isinstance(value, str) and not inspect.getdoc(value)] == []


def test_every_name_of_the_tool_use_api_is_available_and_documented() -> None:
    values = {name: getattr(mcp_bridge.tool_use, name) for name in TOOL_USE}
    assert [name for name, value in values.items() if not inspect.getdoc(value)] == []
    different = [name for name, value in values.items() if getattr(mcp_bridge, name, value) is not value]
    # The two decorators differ in the arguments of the function.
    assert different == ["tool"]


def test_a_name_that_is_not_public_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'mcp_bridge' has no attribute 'nothing'"):
        mcp_bridge.nothing  # type: ignore[attr-defined]


def test_importing_the_package_imports_nothing_else() -> None:
    code = (
        "import sys, mcp_bridge; before = {n.split('.')[0] for n in sys.modules}; "
        "print(sorted(before & {'mcp', 'pydantic', 'anyio', 'starlette', 'orjson'})); "
        "from mcp_bridge import *; print(ToolRegistry.__name__, tool.__name__)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["[]", "ToolRegistry tool"]
