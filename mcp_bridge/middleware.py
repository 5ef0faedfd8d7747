"""Everything for middleware of your own, which runs around every call. docs/middleware.md has examples."""

from mcp_bridge._contracts.policy import CallNext, Middleware, Stage
from mcp_bridge._engine.pipeline import Pipeline

__all__ = ["CallNext", "Middleware", "Pipeline", "Stage"]
