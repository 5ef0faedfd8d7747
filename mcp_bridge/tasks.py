"""Options of calls that continue as tasks. docs/tasks.md describes them."""

from mcp_bridge._contracts.tasks import TaskOptions, ToolTasks

__all__ = ["TaskOptions", "ToolTasks"]
