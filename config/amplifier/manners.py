"""An Amplifier hook module: it governs the calls of every tool, also of those that are no Amplifier modules."""

from collections.abc import Callable
from typing import Any

from mcp_bridge.amplifier import HookResult, ModuleCoordinator

KNOWN = {"ada": "Ada Lovelace", "alan": "Alan Turing"}


async def mind(event: str, data: dict[str, Any]) -> HookResult:
    """Whoever is known is greeted by their full name; about others a person is asked."""
    if data["tool_name"] != "greet":
        return HookResult(action="continue")
    who = str(data["tool_input"].get("who", ""))
    if who not in KNOWN:
        return HookResult(action="ask_user", approval_prompt=f"Greet {who}, whom nobody knows?")
    return HookResult(action="modify", data={"tool_input": {"who": KNOWN[who]}})


async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> Callable[[], None]:
    """Hear every call before it runs; the answer takes the hook away again."""
    return coordinator.hooks.register("tool:pre", mind, priority=10, name="manners")
