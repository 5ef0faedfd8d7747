"""An Amplifier tool module: a class of the Tool contract, and a `mount` that puts it in its place."""

from typing import Any

from mcp_bridge.amplifier import ModuleCoordinator, ToolResult


class Greeter:
    """Greets somebody by name."""

    name = "greet"
    description = "Greet somebody."

    def __init__(self, config: dict[str, Any]) -> None:
        self._word = config.get("word", "Hello")

    @property
    def input_schema(self) -> dict[str, Any]:
        """What it wants to know."""
        return {"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]}

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Answer with a greeting."""
        who = input.get("who")
        if not isinstance(who, str):
            return ToolResult(success=False, error={"message": "who: the name of somebody, as text"})
        return ToolResult(output=f"{self._word}, {who}!")


async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
    """Mount the tool; there is nothing to clean up."""
    await coordinator.mount("tools", Greeter(config), name="greet")
