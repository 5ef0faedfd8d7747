"""Tools whose annotations use syntax and semantics of newer versions of Python than the oldest one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from typing_extensions import TypeAliasType

from mcp_bridge import CallContext, ToolRegistry
from mcp_bridge.testing import connect

needs_generics = pytest.mark.skipif(sys.version_info < (3, 12), reason="PEP 695: Python 3.12")
needs_deferral = pytest.mark.skipif(sys.version_info < (3, 14), reason="PEP 649: Python 3.14")
FUTURE = "from __future__ import annotations\n"
TYPE_CHECKING = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from nowhere import Missing
"""


def define(source: str) -> Callable[..., Any]:
    """Run source code in a new module and return its function `tool`."""
    module: dict[str, Any] = {}
    exec(compile(source, "tools.py", "exec", dont_inherit=True), module)
    return module["tool"]


async def call(function: Callable[..., Any], arguments: dict[str, Any]) -> tuple[Any, str]:
    """Return the schema of a tool's arguments, and the text of a result."""
    registry = ToolRegistry()
    registry.tool(function)
    async with connect(registry) as client:
        (tool,) = (await client.list_tools()).tools
        result = await client.call_tool(tool.name, arguments)
    return tool.input_schema["properties"], result.content[0].text


@needs_generics
@pytest.mark.parametrize("head", ["", FUTURE], ids=["evaluated", "as text"])
async def test_a_generic_function_is_a_tool_with_the_bounds_of_its_parameters(head: str) -> None:
    function = define(head + "def tool[T: int, U: (int, str)](a: T, b: list[U]) -> T: return a + len(b)")
    properties, text = await call(function, {"a": 3, "b": ["x", 1]})
    assert properties == {
        "a": {"type": "integer"},
        "b": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]}},
    }
    assert text == "5"


@needs_generics
@pytest.mark.parametrize("head", ["", FUTURE], ids=["evaluated", "as text"])
async def test_a_recursive_alias_and_a_generic_one_describe_an_argument(head: str) -> None:
    source = """
type Tree = dict[str, Tree] | int
type Pair[T] = tuple[T, T]
def tool(tree: Tree, pair: Pair[int]) -> int: return len(tree) + sum(pair)
"""
    properties, text = await call(define(head + source), {"tree": {"a": {"b": 1}}, "pair": [2, 3]})
    assert properties["tree"] == {"$ref": "#/$defs/Tree"}
    assert properties["pair"]["prefixItems"] == [{"type": "integer"}, {"type": "integer"}]
    assert text == "6"


@needs_generics
@pytest.mark.parametrize("value", ["CallContext", "CallContext | None"])
async def test_the_context_is_known_behind_an_alias(value: str) -> None:
    source = f"""
from mcp_bridge import CallContext
type Context = {value}
def tool(a: int, ctx: Context = None) -> bool: return isinstance(ctx, CallContext)
"""
    assert await call(define(source), {"a": 1}) == ({"a": {"type": "integer"}}, "true")


async def test_the_context_is_known_behind_an_alias_of_typing_extensions() -> None:
    alias = TypeAliasType("alias", CallContext)

    def tool(a, ctx):
        return isinstance(ctx, CallContext)

    tool.__annotations__ = {"a": int, "ctx": alias}
    assert await call(tool, {"a": 1}) == ({"a": {"type": "integer"}}, "true")


@pytest.mark.parametrize(
    "head", [pytest.param("", marks=needs_deferral, id="deferred"), pytest.param(FUTURE, id="text")]
)
async def test_the_type_of_a_result_may_be_imported_for_type_checkers_alone(head: str) -> None:
    source = f"{TYPE_CHECKING}\ndef tool(a: int) -> list[Missing]: return [a]"
    assert await call(define(head + source), {"a": 1}) == ({"a": {"type": "integer"}}, "[1]")


@pytest.mark.parametrize("annotation", ["Missing", "Missing | None", "list[Missing]"])
@pytest.mark.parametrize(
    "head", [pytest.param("", marks=needs_deferral, id="deferred"), pytest.param(FUTURE, id="text")]
)
async def test_the_type_of_an_argument_must_be_imported_at_runtime(head: str, annotation: str) -> None:
    function = define(f"{head}{TYPE_CHECKING}\ndef tool(a: {annotation}) -> int: return 1")
    with pytest.raises(
        TypeError, match=r"tool: parameter 'a': 'Missing' in its annotation cannot be resolved\. Define"
    ):
        ToolRegistry().tool(function)


@needs_deferral
async def test_a_class_may_be_defined_after_the_tool_that_takes_it() -> None:
    source = """
from dataclasses import dataclass
def make():
    def tool(a: Later) -> int: return a.number + a.next.number
    @dataclass
    class Later:
        number: int
        next: Later | None = None
    return tool
tool = make()
"""
    properties, text = await call(define(source), {"a": {"number": 1, "next": {"number": 2}}})
    assert properties["a"] == {"$ref": "#/$defs/Later"}
    assert text == "3"
