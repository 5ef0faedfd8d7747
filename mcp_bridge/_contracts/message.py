"""Message: one message of a conversation (MCP 2025-11-25 and 2026-07-28, server/prompts and client/sampling)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mcp_bridge._contracts.content import Content


@dataclass(frozen=True, slots=True)
class Message(Content):
    """One message of a prompt or of a sampling request. `content` is a block, text or bytes."""

    content: Content | str | bytes
    role: Literal["user", "assistant"] = "user"
