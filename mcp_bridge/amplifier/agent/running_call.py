"""Which call the modules of an agent run in."""

from __future__ import annotations

from contextvars import ContextVar

from mcp_bridge.contracts.context import CallContext

AGENT_CALL: ContextVar[CallContext | None] = ContextVar("agent_call", default=None)
"""The call that runs the agent, for providers that use the client's model."""
