"""Whole agents as tools: a message in, what the agent answers out."""

from __future__ import annotations

import logging
from typing import Any

from anyio import to_thread

from mcp_bridge.contracts.content import Content, Text
from mcp_bridge.contracts.errors import CallError, SourceError, ToolError
from mcp_bridge.contracts.tool import ToolEntry, ToolResult
from mcp_bridge.runtime.third_party import described
from mcp_bridge.xaibo.source import real
from mcp_bridge.xaibo.source.attachments import block
from mcp_bridge.xaibo.source.importing import report_errors
from mcp_bridge.xaibo.source.making import hiding

logger = logging.getLogger("mcp_bridge.sources.xaibo")

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"message": {"type": "string", "description": "What to say to the agent."}},
    "required": ["message"],
    "additionalProperties": False,
}


def entries_of(config: Any, kept: dict[str, Any]) -> list[ToolEntry]:
    """A tool for each entry point of an agent; `kept` are its modules that outlive a call.

    Raises SourceError where the agent cannot be made, or takes no text.
    """
    points = real.entry_points(config)
    if not points:
        raise SourceError(
            f"agent '{config.id}' has no entry point that takes text: none of its modules has handle_text"
        )
    with report_errors(f"agent '{config.id}' cannot be made"):
        real.agent(config, kept)
    return [_entry(config, kept, name, module_id) for name, module_id in points.items()]


def _entry(config: Any, kept: dict[str, Any], name: str, module_id: str) -> ToolEntry:
    description = config.description or f"Sends a message to the agent '{config.id}' and gives its answer."
    if name != real.ENTRY:
        description = f"{description} (entry point: {name})"
    title = config.id if name == real.ENTRY else f"{config.id}.{name}"
    return ToolEntry(title, description, Agent(config, kept, module_id).handle, dict(_SCHEMA))


class Agent:
    """One entry point of an agent, which is made anew for each call, as Xaibo does it."""

    def __init__(self, config: Any, kept: dict[str, Any], module_id: str) -> None:
        self._config = config
        self._kept = kept
        self._module_id = module_id
        self._redactor = hiding(real.settings_of(config))

    async def handle(self, data: Any) -> ToolResult:
        """Send the message. What the agent raises is told to the model, with its text but for configured secrets."""
        try:
            made = real.agent(self._config, self._kept)
            response = await made.handle_text(data["message"], entry_point=self._module_id)
            return await self._result(response)
        except CallError:  # said on purpose, for the model
            raise
        except Exception as error:
            logger.error("agent %r failed", self._config.id, exc_info=error)
            text = self._redactor.text(f"The agent '{self._config.id}' failed: {described(error)}")
            return ToolResult(success=False, error=text, code=ToolError.code)

    async def _result(self, response: Any) -> ToolResult:
        text, attachments = getattr(response, "text", None), list(getattr(response, "attachments", None) or ())
        if not attachments:
            return ToolResult(success=True, output=text)
        blocks: list[Content] = [Text(text)] if text else []
        for number, attachment in enumerate(attachments, 1):
            blocks.append(await to_thread.run_sync(block, attachment, f"{self._config.id}/{number}"))
        return ToolResult(success=True, content=tuple(blocks))
