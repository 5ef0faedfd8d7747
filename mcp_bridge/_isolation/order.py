"""The order with which a worker starts (WorkerOrder), and its limits (WorkerLimits)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_bridge._contracts.errors import ResultTooLarge
from mcp_bridge._json_schema.size_limits import MAX_VALUES

MAX_WORKER_LINE = 64 * 1024 * 1024
"""The maximum number of bytes of a line of a worker."""
CONTEXT_FIELDS = ("protocol_version", "principal", "session", "request_id")
"""The attributes of a call's context that the worker gets unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """The limits of one worker.

    Attributes:
        memory: The maximum number of bytes of its address space.
        files: The maximum number of its open files.
        file_size: The maximum number of bytes of a file it writes.
    """

    memory: int = 2 * 1024**3
    files: int = 256
    file_size: int = 100 * 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOrder:
    """The source that a worker runs.

    Attributes:
        type: The type of the source.
        name: The name of the source.
        options: The options of the source as in the settings.
        directory: The directory at which relative paths start.
        working_dir: The working directory of the source's modules.
        roots: Whether clients may replace the working directory by their root.
        watch: Whether the source publishes again after its files have changed.
        is_whole: Whether no part of the source runs in the bridge's process.
        is_contained: Whether the worker runs in a container, which limits its memory and hides its processes from the
            bridge.
        selection: The result of `Selection.dump`. The agents of the source get only the selected tools.
    """

    type: str
    name: str
    options: Mapping[str, Any]
    directory: str
    working_dir: str
    roots: bool = False
    watch: bool = False
    is_whole: bool = False
    is_contained: bool = False
    selection: Mapping[str, Any] = field(default_factory=dict)


def make_size_error() -> ResultTooLarge:
    """Return the error for a result with too many bytes or values for a line."""
    limits = f"{MAX_WORKER_LINE >> 20} MiB or {MAX_VALUES} values"
    return ResultTooLarge(f"The result has more than {limits}. Ask for a smaller part.")
