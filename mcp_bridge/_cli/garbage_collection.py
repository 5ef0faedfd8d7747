"""Enables garbage collection, which the command line disables during its imports."""

from __future__ import annotations

import gc


def enable_collections() -> None:
    """Enable garbage collection again after the imports. No collection visits the existing objects."""
    gc.freeze()
    gc.enable()
