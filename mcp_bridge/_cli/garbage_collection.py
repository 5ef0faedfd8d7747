"""Garbage collection. The command line disables it while it starts."""

from __future__ import annotations

import gc


def enable_collections() -> None:
    """Enable garbage collection again after the imports. It never visits the objects of these."""
    gc.freeze()
    gc.enable()
