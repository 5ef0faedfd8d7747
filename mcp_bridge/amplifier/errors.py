"""What may go wrong with a module."""

from __future__ import annotations

from mcp_bridge.contracts.errors import BridgeError, RegistryError


class ModuleNotFoundError(BridgeError):
    """No module of that name is anywhere that was looked; the message says where that was."""


class ModuleLoadError(BridgeError):
    """A module is there, but cannot be loaded: it does not import, has no `mount`, or its `mount` failed."""


class MountCollision(RegistryError, ValueError):
    """Two modules mount under one name: at this point, under this name."""

    def __init__(self, point: str, name: str) -> None:
        super().__init__(f"mount at '{point}': there is another '{name}'. Rename one, or leave one out.")
        self.point = point
        self.name = name


class ApprovalTimeoutError(BridgeError):
    """Nobody answered an approval in time."""
