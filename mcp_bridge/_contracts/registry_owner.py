"""What has a registry, for functions that accept a registry or a bridge."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from mcp_bridge._contracts.context import Caller


@runtime_checkable
class RegistryOwner(Protocol):
    """Something that has a registry, such as a bridge."""

    @property
    def registry(self) -> Caller:
        """The registry, or another caller."""


def get_caller(tools: Caller | RegistryOwner) -> Caller:
    """Return a registry, or the registry of its owner."""
    return tools.registry if isinstance(tools, RegistryOwner) else tools
