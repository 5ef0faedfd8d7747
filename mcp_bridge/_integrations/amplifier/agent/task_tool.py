"""`tool-task`: the tool of an agent for giving a task to another agent of its plan."""

from __future__ import annotations

from typing import Any

from mcp_bridge._contracts.tool import ToolResult

__amplifier_module_type__ = "tool"

_PURPOSE = (
    "Give a task to another agent, which works on it by itself and reports back. It knows nothing of this "
    "conversation, so put everything it needs into the instruction. Make several calls at once for independent tasks."
)


class TaskTool:
    """Starts agents of the plan, and resumes them.

    In `config`, `exclude_tools` or `inherit_tools` define the inherited tools of these agents, and `exclude_hooks` or
    `inherit_hooks` the inherited hooks.
    """

    name = "task"

    def __init__(self, coordinator: Any, config: dict[str, Any]) -> None:
        self._coordinator = coordinator
        self._tool_inheritance = {}
        self._hook_inheritance = {}
        for key, names in config.items():
            if key in ("exclude_tools", "inherit_tools") and names is not None:
                self._tool_inheritance[key] = names
            elif key in ("exclude_hooks", "inherit_hooks") and names is not None:
                self._hook_inheritance[key] = names

    @property
    def description(self) -> str:
        """The purpose of the tool, and the agents of the plan."""
        agents = sorted((self._coordinator.config.get("agents") or {}).items())
        lines = [f"- {name}: {config.get('description') or 'no description'}" for name, config in agents]
        return "\n".join([f"{_PURPOSE} The agents:", *lines])

    @property
    def input_schema(self) -> dict[str, Any]:
        """The arguments: `instruction`, and `agent` to start one or `session_id` to resume one."""
        agents = sorted(self._coordinator.config.get("agents") or {})
        return {
            "type": "object",
            "properties": {
                "agent": {
                    "type": "string",
                    "enum": agents,
                    "description": "The agent to start. Omit it to resume one.",
                },
                "instruction": {"type": "string", "minLength": 1, "description": "What the agent should do."},
                "session_id": {
                    "type": "string",
                    "description": "Resume the agent of an earlier result. It remembers what it did.",
                },
            },
            "required": ["instruction"],
        }

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Run an agent. Raises ToolError if it cannot run, or fails."""
        if input.get("session_id"):
            resume = self._coordinator.get_capability("session.resume")
            try:
                result = await resume(sub_session_id=input["session_id"], instruction=input["instruction"])
            except FileNotFoundError as error:
                return ToolResult(success=False, error=str(error), code="session_not_found")
        elif input.get("agent"):
            spawn = self._coordinator.get_capability("session.spawn")
            result = await spawn(
                agent_name=input["agent"],
                instruction=input["instruction"],
                tool_inheritance=self._tool_inheritance,
                hook_inheritance=self._hook_inheritance,
            )
        else:
            message = "Give `agent` to start an agent, or `session_id` to resume one."
            return ToolResult(success=False, error=message, code="invalid_arguments")
        session_id = result["session_id"]
        if result["status"] == "success":
            return ToolResult(output={"response": result["output"], "session_id": session_id})
        return ToolResult(
            success=False, output={"session_id": session_id}, error=result["output"], code="agent_stopped"
        )


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Any:
    """Mount the tool. Raises ValueError if the plan has no agents.

    The plan of a subagent may have no agents, because the subagent may start none. Then nothing is mounted.
    """
    if coordinator.config.get("agents"):
        tool = TaskTool(coordinator, config or {})
        await coordinator.mount("tools", tool, name=tool.name)
        return tool
    if coordinator.parent_id is None:
        raise ValueError("the plan has no agents. Add them under `agents`, or remove this module")
    return None
