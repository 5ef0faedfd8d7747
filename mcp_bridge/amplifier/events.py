"""The names of `amplifier_core.events`."""

from mcp_bridge._integrations.amplifier.events import *  # noqa: F403
