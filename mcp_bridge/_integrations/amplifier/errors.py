"""The errors of finding, loading and mounting modules, and `log_errors`, to continue after an error."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from mcp_bridge._contracts.errors import BridgeError, RegistryError
from mcp_bridge._runtime.third_party import is_own_cancellation

logger = logging.getLogger("mcp_bridge.amplifier")


class ModuleNotFoundError(BridgeError):
    """No module of this name was found; the message lists the places of the search.

    Unlike the built-in error of this name, it is no ImportError:

    >>> issubclass(ModuleNotFoundError, ImportError)
    False
    """


class ModuleLoadError(BridgeError):
    """A module was found but cannot be loaded: its import fails, it has no `mount`, or its `mount` fails.

    >>> isinstance(ModuleLoadError("module 'tool-forecast' cannot be imported"), BridgeError)
    True
    """


class MountCollision(RegistryError, ValueError):
    """Two modules mount under one name at one mount point.

    >>> print(MountCollision("tools", "forecast"))
    mount at 'tools': 'forecast' is already mounted. Rename or remove one of them.
    """

    def __init__(self, point: str, name: str) -> None:
        super().__init__(f"mount at '{point}': '{name}' is already mounted. Rename or remove one of them.")
        self.point = point
        self.name = name


class ApprovalTimeoutError(BridgeError):
    """An approval request timed out.

    >>> raise ApprovalTimeoutError("no answer within 30 seconds")
    Traceback (most recent call last):
    mcp_bridge._integrations.amplifier.errors.ApprovalTimeoutError: no answer within 30 seconds
    """


@contextmanager
def log_errors(message: str, *args: object) -> Iterator[None]:
    """Log the errors of third-party code in the block, and continue after it. Cancellation of the caller passes."""
    try:
        yield
    except BaseException as error:
        if is_own_cancellation(error):
            raise
        logger.exception(message, *args)
