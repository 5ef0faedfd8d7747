"""`loop-basic`: the loop of an agent. It returns its response as a whole."""

from __future__ import annotations

from typing import Any

from mcp_bridge._integrations.amplifier.loops.loop import AgentLoop, LoopConfig, mount_loop

__amplifier_module_type__ = "orchestrator"


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Any:
    """Mount the loop. Raises ValueError for an invalid configuration."""
    loop = AgentLoop("loop-basic", LoopConfig(**(config or {})), coordinator)
    return await mount_loop(coordinator, loop)
