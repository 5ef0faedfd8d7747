"""Garbage collection, which the command line disables while it starts."""

from __future__ import annotations

import gc


def enable_collections() -> None:
    """Enable the garbage collection that `main` has disabled. It does not visit what was imported until now."""
    gc.freeze()
    gc.enable()
