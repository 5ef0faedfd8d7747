"""What stands for hooks that are not in place: nothing runs that they might have denied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_bridge.amplifier.events import PROMPT_SUBMIT, TOOL_PRE
from mcp_bridge.amplifier.models import HookResult


class Refusing:
    """Denies every call and every prompt, because these hook modules could not be mounted, or are not any more."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._modules = modules

    def hears(self, event: str) -> bool:
        """Only what can still be denied."""
        return event in {TOOL_PRE, PROMPT_SUBMIT}

    async def decide(self, event: str, data: dict[str, Any]) -> HookResult:
        """Deny it."""
        named = ", ".join(f"'{module}'" for module in self._modules)
        return HookResult(action="deny", reason=f"the hooks of {named} are not in place, and nothing runs without them")
