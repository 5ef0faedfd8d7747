"""The tools of config/demo.yaml: one that returns a result, one that reports progress, one that takes a dict."""

from typing import Annotated, Literal

import anyio
from pydantic import Field

from mcp_bridge import CallContext, ToolError, tool

PLACES = {"lisbon": 21.5, "oslo": 4.0, "nairobi": 25.0}


@tool(tags=["weather"])
def temperature(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> float:
    """Return the temperature of a city, from a small table.

    Args:
        city: The city's English name, such as Lisbon.
        unit: The unit of the result.
    """
    try:
        celsius = PLACES[city.lower()]
    except KeyError:
        known = ", ".join(sorted(PLACES))
        raise ToolError(f"There is no city '{city}' in the table. Known ones: {known}.", code="unknown_city") from None
    return celsius if unit == "celsius" else celsius * 9 / 5 + 32


@tool(tags=["demo"])
async def count(to: Annotated[int, Field(ge=1, le=100)], ctx: CallContext) -> str:
    """Count slowly and report progress.

    Args:
        to: The last number.
    """
    for number in range(1, to + 1):
        await anyio.sleep(0.05)
        await ctx.report_progress(number, to, f"at {number}")
    return f"Counted to {to}."


@tool(
    name="shout",
    description="Say it louder.",
    input_schema={"type": "object", "properties": {"words": {"type": "string", "minLength": 1}}, "required": ["words"]},
    tags=["demo"],
)
def shout(data: dict[str, str]) -> dict[str, str]:
    """Take a dict and return a dict, as in the tool_use API."""
    return {"shouted": data["words"].upper() + "!"}
