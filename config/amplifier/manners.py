"""An Amplifier hook module: it governs the calls of all tools, including those that are not Amplifier modules."""

from collections.abc import Callable
from typing import Any

from mcp_bridge.amplifier import HookResult, ModuleCoordinator

KNOWN = {"ada": "Ada Lovelace", "alan": "Alan Turing"}


async def mind(event: str, data: dict[str, Any]) -> HookResult:
    """Use the full name of known users, and ask for approval to greet others."""
    if data["tool_name"] != "greet":
        return HookResult(action="continue")
    who = str(data["tool_input"].get("who", ""))
    if who not in KNOWN:
        return HookResult(action="ask_user", approval_prompt=f"Greet {who}, who is unknown?")
    return HookResult(action="modify", data={"tool_input": {"who": KNOWN[who]}})


async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> Callable[[], None]:
    """Register the hook for every call; the returned function unregisters it."""
    return coordinator.hooks.register("tool:pre", mind, priority=10, name="manners")
