"""The order that a worker gets: which source to run, and how much it may take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_bridge.contracts.errors import ResultTooLarge

LINE = 64 * 1024 * 1024
"""The longest line that a worker may say, in bytes."""
MEMORY = 2 * 1024**3
FILES = 256
FILE_SIZE = 100 * 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one worker may take.

    `memory` (address space) and `file_size` are in bytes, `cpu` is seconds of computing for one call (None: as long as
    the call may last), `files` are open at once.
    """

    memory: int = MEMORY
    cpu: float | None = None
    files: int = FILES
    file_size: int = FILE_SIZE


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What a sandboxed worker sees besides the system and its own folder: paths to `read` and `write`, the network."""

    network: bool = False
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """How tools are kept apart: `workers` processes at most, each with one call at a time.

    `tools` are patterns of the tools that run there (none means all that the source has), `env` names the environment
    variables that workers get besides the ordinary ones. Without a `sandbox` a worker is a plain process.
    """

    tools: tuple[str, ...] = ()
    workers: int = 4
    limits: Limits = field(default_factory=Limits)
    env: tuple[str, ...] = ()
    sandbox: Sandbox | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Which source a worker runs: its `type`, its raw `options`, the `directory` that relative paths start at.

    `working_dir` and `roots` are what its tools work in, as `WorkingDirSource.work_in` takes them.
    """

    type: str
    name: str
    options: Mapping[str, Any]
    directory: str
    working_dir: str
    roots: bool = False
    watch: bool = False


def too_large() -> ResultTooLarge:
    """The error of an answer that is longer than a line may be."""
    return ResultTooLarge(f"The answer has more than {LINE >> 20} MiB. Ask for a smaller part.")
