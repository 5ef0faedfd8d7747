"""Errors of modules."""

from __future__ import annotations

from mcp_bridge.contracts.errors import BridgeError, RegistryError


class ModuleNotFoundError(BridgeError):
    """No module of that name was found; the message lists the places that were searched."""


class ModuleLoadError(BridgeError):
    """A module was found but cannot be loaded: its import fails, it has no `mount`, or its `mount` fails."""


class MountCollision(RegistryError, ValueError):
    """Two modules mount under one name at one mount point."""

    def __init__(self, point: str, name: str) -> None:
        super().__init__(f"mount at '{point}': '{name}' is already mounted. Rename or remove one of them.")
        self.point = point
        self.name = name


class ApprovalTimeoutError(BridgeError):
    """An approval request timed out."""
