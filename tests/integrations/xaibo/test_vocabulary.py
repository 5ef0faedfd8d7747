"""The names of Xaibo's Tools Protocol are here, are imported late, and need no xaibo."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

import mcp_bridge.xaibo
from mcp_bridge.xaibo import LLMOptions, MockToolProvider, Tool, ToolParameter, ToolProviderProtocol, ToolResult

NEEDED = {
    "ToolProviderProtocol", "Tool", "ToolParameter", "ToolResult", "ToolError", "ToolNotFoundError",
    "ToolExecutionError", "ToolParameterError", "MockToolProvider", "LLMOptions", "LLMMessage",
}  # fmt: skip
MODELS = ("Tool", "ToolParameter", "ToolResult")
LLM_MODELS = (
    "LLMFunctionCall", "LLMFunctionResult", "LLMMessage", "LLMMessageContent", "LLMOptions", "LLMResponse", "LLMUsage",
)  # fmt: skip


def test_every_name_can_be_imported_and_no_other() -> None:
    assert set(mcp_bridge.xaibo.__all__) >= NEEDED
    for name in mcp_bridge.xaibo.__all__:
        assert getattr(mcp_bridge.xaibo, name).__name__ == name
    assert dir(mcp_bridge.xaibo) == sorted(mcp_bridge.xaibo.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Agent'"):
        mcp_bridge.xaibo.Agent


def test_pydantic_is_imported_with_the_first_model() -> None:
    statement = (
        "import mcp_bridge._integrations.xaibo.schemas, mcp_bridge._integrations.xaibo.results, "
        "mcp_bridge._integrations.xaibo.protocols"
    )
    result = "sorted({name.partition('.')[0] for name in sys.modules} & {'pydantic', 'xaibo', 'mcp'})"
    code = f"import sys; {statement}; assert not {result}, {result}"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


class Asynchronous:
    """A provider as the protocol has it."""

    async def list_tools(self) -> list[Tool]:
        """None."""
        return []

    async def execute_tool(self, tool_name: str, parameters: dict[str, Any]) -> ToolResult:
        """Nothing."""
        return ToolResult(success=True)


class Synchronous:
    """A provider without `async`, and with different names of parameters."""

    def list_tools(self) -> list[Tool]:
        """None."""
        return []

    def execute_tool(self, name: str, **given: Any) -> ToolResult:
        """Nothing."""
        return ToolResult(success=True)


class Half:
    """Lists, and cannot run."""

    async def list_tools(self) -> list[Tool]:
        """None."""
        return []


def test_an_object_with_both_methods_is_a_provider() -> None:
    assert isinstance(Asynchronous(), ToolProviderProtocol)
    assert isinstance(Synchronous(), ToolProviderProtocol)
    assert isinstance(MockToolProvider([], {}), ToolProviderProtocol)
    assert not isinstance(Half(), ToolProviderProtocol)


def test_required_fields_of_models_are_required() -> None:
    for model, arguments in ((Tool, {"name": "a"}), (ToolParameter, {}), (ToolResult, {"result": 1})):
        with pytest.raises(ValidationError):
            model(**arguments)
    with pytest.raises(ValidationError):
        ToolParameter(type="integer", enum=[1])  # type: ignore[list-item]


def test_tools_do_not_share_their_parameters() -> None:
    item, second_item = Tool(name="a", description=""), Tool(name="b", description="")
    item.parameters["x"] = ToolParameter(type="string")
    assert second_item.parameters == {}


async def test_the_mock_returns_its_results() -> None:
    tools = [Tool(name="a", description="")]
    provider = MockToolProvider(tools, {"a": {"n": 1}, "b": ValueError("why"), "c": None})
    assert await provider.list_tools() == tools
    assert await provider.execute_tool("a", {}) == ToolResult(success=True, result={"n": 1})
    assert await provider.execute_tool("b", {}) == ToolResult(success=False, error="why")
    assert await provider.execute_tool("c", {}) == ToolResult(success=True)
    assert await provider.execute_tool("d", {}) == ToolResult(success=False, error="Tool d not mocked")


async def test_the_history_of_the_mock_has_the_arguments() -> None:
    parameters = {
        "units": ToolParameter(type="string", default="celsius"),
        "days": ToolParameter(type="integer", default=5),
    }
    provider = MockToolProvider([Tool(name="w", description="", parameters=parameters)], {"w": 1})
    arguments: dict[str, Any] = {"city": "Oslo", "near": ["Moss"]}
    await provider.execute_tool("w", arguments)
    await provider.execute_tool("unknown", {})
    arguments["near"].append("Ski")
    assert provider.call_history == [("w", {"city": "Oslo", "near": ["Moss"]}), ("unknown", {})]


class TheirParameter(BaseModel):
    """A parameter of another package."""

    type: str
    default: Any = None
    required: bool = False
    more: int = 0


class TheirTool(BaseModel):
    """A tool of another package."""

    name: str
    description: str
    parameters: dict[str, TheirParameter]


def test_models_of_another_package_are_accepted() -> None:
    parameters = {"a": TheirParameter(type="any", default=None), "b": TheirParameter(type="any")}
    options = LLMOptions(functions=[TheirTool(name="t", description="d", parameters=parameters)])  # type: ignore[list-item]
    ours = {"a": ToolParameter(type="any", default=None), "b": ToolParameter(type="any")}
    assert options.functions == [Tool(name="t", description="d", parameters=ours)]
    assert [item.model_fields_set for item in options.functions[0].parameters.values()] == [
        {"type", "default"},
        {"type"},
    ]
    mine = Tool(name="m", description="d")
    assert LLMOptions(functions=[mine]).functions == [mine]


@pytest.mark.parametrize(
    ("module", "name"),
    [*(("tools", name) for name in MODELS), *(("llm", name) for name in LLM_MODELS)],
)
def test_a_model_has_the_fields_of_that_of_xaibo(module: str, name: str) -> None:
    real = getattr(importlib.import_module(f"xaibo.core.models.{module}"), name)
    ours = getattr(mcp_bridge.xaibo, name)
    for field, theirs in real.model_fields.items():
        mine = ours.model_fields[field]
        assert mine.is_required() == theirs.is_required(), field
        assert mine.get_default(call_default_factory=True) == theirs.get_default(call_default_factory=True), field
    assert list(ours.model_fields) == list(real.model_fields)


def test_roles_and_protocols_have_the_names_of_those_of_xaibo() -> None:
    from xaibo.core.models import llm, tools
    from xaibo.core.protocols.llm import LLMProtocol
    from xaibo.core.protocols.tools import ToolProviderProtocol as Real

    for name in ("LLMRole", "LLMMessageContentType"):
        ours, real = getattr(mcp_bridge.xaibo, name), getattr(llm, name)
        assert [(item.name, item.value, str(item)) for item in ours] == [
            (item.name, item.value, str(item)) for item in real
        ]
    for protocol in (ToolProviderProtocol, Real):
        assert isinstance(Synchronous(), protocol)
        assert not isinstance(Half(), protocol)
    assert set(dir(mcp_bridge.xaibo.LLMProtocol)) >= {name for name in vars(LLMProtocol) if not name.startswith("_")}
    assert tools.Tool(name="a", description="").model_dump() == Tool(name="a", description="").model_dump()


def test_tools_of_xaibo_are_read() -> None:
    from xaibo.core.models import tools

    from mcp_bridge._integrations.xaibo.results import to_result
    from mcp_bridge._integrations.xaibo.schemas import build_schema, convert_arguments

    level = {"type": "int", "enum": ["1", "2"], "required": True}
    arguments: dict[str, Any] = {
        "name": "t",
        "description": "d",
        "parameters": {"n": level, "x": {"type": "any", "default": None}},
    }
    real, ours = tools.Tool(**arguments), Tool(**arguments)
    assert build_schema(real.parameters) == build_schema(ours.parameters)
    assert build_schema(real.parameters)["properties"]["x"] == {"default": None}
    assert convert_arguments(real.parameters, {"n": 2}) == {"n": "2"}
    assert LLMOptions(functions=[real]).functions == [ours]
    failure = tools.ToolResult(success=False, error="no", result=1)
    assert to_result(failure) == to_result({"success": False, "error": "no", "result": 1})
