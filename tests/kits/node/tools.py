"""The tools for the Node clients."""

from mcp_bridge import CallContext, ToolError, tool


@tool
def add(a: int, b: int) -> int:
    """Add two whole numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


@tool
def greet(name: str, excited: bool = False) -> str:
    """Return a greeting.

    Args:
        name: The name of a user.
        excited: Whether the greeting ends with an exclamation mark.
    """
    return f"Hello, {name}{'!' if excited else '.'}"


@tool
async def countdown(steps: int, ctx: CallContext) -> str:
    """Count some steps, and report the progress of each.

    Args:
        steps: How many steps to count.
    """
    for step in range(1, steps + 1):
        await ctx.report_progress(step, total=steps)
    return f"counted {steps} steps"


@tool
def refuse(reason: str) -> str:
    """Refuse to do anything.

    Args:
        reason: What the refusal says.
    """
    raise ToolError(f"I refuse: {reason}")
