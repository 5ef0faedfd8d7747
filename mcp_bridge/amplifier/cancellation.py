"""The names of `amplifier_core.cancellation`."""

from mcp_bridge._integrations.amplifier.cancellation import CancellationState, CancellationToken

__all__ = ["CancellationState", "CancellationToken"]
