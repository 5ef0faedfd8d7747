"""An Amplifier tool module: a class that fulfils the Tool contract, and `mount`."""

from typing import Any

from mcp_bridge.amplifier import ModuleCoordinator, ToolResult


class Greeter:
    """Greets a user by name."""

    name = "greet"
    description = "Greet a user by name."

    def __init__(self, config: dict[str, Any]) -> None:
        self._word = config.get("word", "Hello")

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return {"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]}

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Return a greeting."""
        who = input.get("who")
        if not isinstance(who, str):
            return ToolResult(success=False, error={"message": "who: a name is required"})
        return ToolResult(output=f"{self._word}, {who}!")


async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
    """Mount the tool; there is nothing to clean up."""
    await coordinator.mount("tools", Greeter(config), name="greet")
