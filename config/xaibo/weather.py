"""A provider of Xaibo's Tools Protocol. With xaibo installed, the import may as well be of xaibo's own names."""

from mcp_bridge.xaibo import Tool, ToolParameter, ToolResult

WARMTH = {"Oslo": 4.0, "Lisbon": 21.5}


class WeatherTools:
    """What the weather is like."""

    def __init__(self, config: dict):  # noqa: ANN204 - Xaibo takes a return annotation for a module that it needs
        self.offset = config.get("offset", 0.0)

    async def list_tools(self) -> list[Tool]:
        city = ToolParameter(type="string", description="The city's English name", required=True)
        unit = ToolParameter(type="string", default="celsius", enum=["celsius", "kelvin"])
        return [Tool(name="temperature", description="How warm it is.", parameters={"city": city, "unit": unit})]

    async def execute_tool(self, tool_name: str, parameters: dict) -> ToolResult:
        city = parameters["city"]
        if city not in WARMTH:
            return ToolResult(success=False, error=f"There is no city '{city}' here. Try {', '.join(WARMTH)}.")
        warmth = WARMTH[city] + self.offset
        return ToolResult(success=True, result=warmth + 273.15 if parameters.get("unit") == "kelvin" else warmth)
