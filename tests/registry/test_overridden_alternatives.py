"""Hidden and fixed arguments of tools whose schemas have alternatives and dependencies: calls can satisfy them."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_bridge import ToolEntry, ToolRegistry
from mcp_bridge.app.bridge import Bridge
from mcp_bridge.registry.overrides import ToolOverride
from mcp_bridge.testing import connect
from tests.kits.loops import BOTH_LOOPS

pytestmark = pytest.mark.anyio
NAMES = {name: {"type": "string"} for name in ("a", "b", "c")}


def build(override: ToolOverride, **keywords: Any) -> ToolEntry:
    """Override a tool that returns its arguments, whose schema has these keywords."""
    tool = ToolEntry(
        "echo", "Return the arguments.", lambda data: data, {"type": "object", "properties": NAMES, **keywords}
    )
    return override.apply(tool)


async def call(tool: ToolEntry, **arguments: Any) -> Any:
    """Call the tool through a server; return its output, or None for an error."""
    registry = ToolRegistry()
    registry.register(tool)
    async with connect(Bridge(registry)) as client:
        result = await client.call_tool("echo", arguments)
    return None if result.is_error else result.structured_content


@BOTH_LOOPS
@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
async def test_a_fixed_argument_satisfies_its_alternative(keyword: str) -> None:
    tool = build(ToolOverride(fixed={"a": "x"}), **{keyword: [{"required": ["a", "b"]}, {"required": ["c"]}]})
    assert await call(tool, b="y") == {"a": "x", "b": "y"}
    assert await call(tool, c="z") == {"a": "x", "c": "z"}
    assert await call(tool) is None


@BOTH_LOOPS
async def test_an_alternative_that_needs_a_hidden_argument_is_left_out() -> None:
    tool = build(ToolOverride(hidden=frozenset("a")), anyOf=[{"required": ["a"]}, {"required": ["b"]}])
    assert await call(tool, b="y") == {"b": "y"}
    assert await call(tool) is None


@BOTH_LOOPS
async def test_fixed_arguments_satisfy_all_requirements_and_dependencies() -> None:
    tool = build(
        ToolOverride(fixed={"a": "x"}),
        allOf=[{"required": ["a"]}, {"anyOf": [{"required": ["a"]}]}],
        dependentRequired={"b": ["a"], "a": ["c"]},
    )
    assert await call(tool, b="y", c="z") == {"a": "x", "b": "y", "c": "z"}
    assert await call(tool, b="y") is None


@BOTH_LOOPS
async def test_alternatives_that_do_not_allow_the_fixed_value_are_left_out() -> None:
    branches = [{"properties": {"a": {"const": name}}, "required": ["a", name]} for name in ("b", "c")]
    tool = build(ToolOverride(fixed={"a": "c"}), oneOf=branches)
    assert await call(tool, c="z") == {"a": "c", "c": "z"}
    assert await call(tool, b="y") is None


@pytest.mark.parametrize(
    "keywords",
    [
        {"anyOf": [{"required": ["a"]}]},
        {"oneOf": [{"required": ["a"]}]},
        {"allOf": [{"required": ["a"]}]},
        {"dependentRequired": {"b": ["a"]}},
    ],
)
def test_a_hidden_argument_without_a_value_that_every_call_needs_is_rejected(keywords: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"the argument 'a' is required.*needs a value"):
        build(ToolOverride(hidden=frozenset("a")), **keywords)
