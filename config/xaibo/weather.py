"""A provider of Xaibo's Tools Protocol. With xaibo installed, you can import xaibo's own classes instead."""

from mcp_bridge.xaibo import Tool, ToolParameter, ToolResult

WARMTH = {"Oslo": 4.0, "Lisbon": 21.5}


class WeatherTools:
    """Provides a tool for temperatures."""

    def __init__(self, config: dict):  # noqa: ANN204 - Xaibo takes a return annotation for a module that it needs
        self.offset = config.get("offset", 0.0)

    async def list_tools(self) -> list[Tool]:
        city = ToolParameter(type="string", description="The city's English name", required=True)
        unit = ToolParameter(type="string", default="celsius", enum=["celsius", "kelvin"])
        return [
            Tool(name="temperature", description="The temperature of a city.", parameters={"city": city, "unit": unit})
        ]

    async def execute_tool(self, tool_name: str, parameters: dict) -> ToolResult:
        city = parameters["city"]
        if city not in WARMTH:
            return ToolResult(success=False, error=f"Unknown city '{city}'. Try {', '.join(WARMTH)}.")
        warmth = WARMTH[city] + self.offset
        return ToolResult(success=True, result=warmth + 273.15 if parameters.get("unit") == "kelvin" else warmth)
