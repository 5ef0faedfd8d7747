"""The decorators of a registry, and the hints of a tool."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_bridge import ToolRegistry, tool
from mcp_bridge.testing import connect


async def test_a_registry_has_the_decorators_as_methods() -> None:
    registry = ToolRegistry()

    @registry.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @registry.tool(name="minus", tags=["math"], title="Subtract")
    def subtract(a: int, b: int) -> int:
        return a - b

    @registry.resource("config://version")
    def version() -> str:
        return "1.2.0"

    @registry.resource("users://{user}")
    def profile(user: str) -> dict[str, Any]:
        return {"user": user}

    @registry.prompt
    def greet(name: str) -> str:
        return f"Greet {name}."

    @registry.prompt("bye", title="Say goodbye")
    def say_goodbye(name: str) -> str:
        return f"Say goodbye to {name}."

    assert add(1, 2) == 3
    async with connect(registry) as client:
        tools = (await client.list_tools()).tools
        assert [(item.name, item.title) for item in tools] == [("add", None), ("minus", "Subtract")]
        assert (await client.call_tool("minus", {"a": 3, "b": 1})).content[0].text == "2"
        assert (await client.read_resource("config://version")).contents[0].text == "1.2.0"
        assert (await client.read_resource("users://ann")).contents[0].text == '{"user":"ann"}'
        assert [item.name for item in (await client.list_prompts()).prompts] == ["bye", "greet"]


def test_hints_become_annotations() -> None:
    @tool(read_only=True, open_world=False, annotations={"title": "Look up"})
    def look_up(word: str) -> str:
        return word

    @tool(destructive=True, idempotent=True)
    def delete(name: str) -> None: ...

    assert look_up.tool_entry.annotations == {"title": "Look up", "readOnlyHint": True, "openWorldHint": False}
    assert delete.tool_entry.annotations == {"destructiveHint": True, "idempotentHint": True}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"readonly": True}, "unexpected keyword argument 'readonly'"),
        ({"read_only": True, "annotations": {"readOnlyHint": False}}, "give either read_only= or 'readOnlyHint'"),
    ],
)
def test_an_unknown_or_contradictory_hint_is_an_error(options: Any, problem: str) -> None:
    with pytest.raises(TypeError) as error:

        @tool(**options)
        def work() -> None: ...

    assert problem in str(error.value)
