"""Tools with long calls, including the tasks of the suite."""

from __future__ import annotations

import asyncio

from questions import fields
from shelf import registry

from mcp_bridge import Answer, CallContext, Form, ToolError, tool
from mcp_bridge.questions import NeedsInput
from mcp_bridge.tasks import TaskOptions, ToolTasks

AT_ONCE = ToolTasks(after=0)
TASKS = TaskOptions(
    poll=0.2,
    tools={
        "slow_compute": AT_ONCE,
        "failing_job": AT_ONCE._replace(mode="required"),
        "protocol_error_job": AT_ONCE,
        "confirm_delete": AT_ONCE,
        "multi_input": AT_ONCE,
        "test_tool_with_task": ToolTasks(mode="required", after=1.5),
        "*": ToolTasks(mode="forbidden"),
    },
)
CONFIRM = fields(confirm={"type": "boolean"})
NAME = fields(name={"type": "string"})


@tool(registry=registry)
async def greet(name: str) -> str:
    """Return a greeting."""
    return f"Hello, {name}!"


@tool(registry=registry)
async def slow_compute(seconds: float, ctx: CallContext, label: str = "") -> str:
    """Compute for some seconds."""
    await ctx.report_progress(0, seconds, f"computing {label}")
    await asyncio.sleep(seconds)
    return f"computed {label}"


@tool(registry=registry)
async def failing_job() -> str:
    """Fail as a tool does."""
    raise ToolError("this job fails")


@tool(registry=registry)
async def protocol_error_job(ctx: CallContext) -> str:
    """Require an undeclared capability, which is an error of the protocol."""
    return str(await ctx.roots())


@tool(registry=registry)
async def confirm_delete(filename: str, ctx: CallContext) -> str:
    """Delete a file if the user confirms."""
    answer = await ctx.ask(f"Delete {filename}?", CONFIRM)
    return f"deleted {filename}" if answer.content.get("confirm") else f"kept {filename}"


@tool(registry=registry)
async def multi_input(ctx: CallContext) -> str:
    """Ask two questions in one round."""
    answers = await ctx.put({"name": Form("Your name?", NAME), "confirm": Form("Sure?", CONFIRM)})
    return f"{answers['name'].content.get('name')} is sure"


@tool(registry=registry)
async def test_tool_with_task(ctx: CallContext) -> NeedsInput | str:
    """Ask for a name, then run for longer than `after`, so that the call becomes a task."""
    answer: Answer | None = ctx.answers.get("user_name")
    if answer is None:
        return NeedsInput({"user_name": Form("Your name?", NAME)})
    await asyncio.sleep(2)
    return f"done for {answer.content.get('name')}"
