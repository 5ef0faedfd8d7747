"""What policies get from the bridge when they are built."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from mcp_bridge._runtime.redaction import Redactor


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyServices:
    """Services of a bridge for its policies.

    Attributes:
        name: The name of the server, for the keys in a shared store.
        directory: The folder of the settings file, where relative paths start.
        settings_file: The settings file, or its folder if the settings are not from a file.
        redis_url: The Redis of `state.url` or `tasks.url`; None if there is none.
        redactor: Removes secrets, and patterns of the policy `redact`, from what is logged or recorded.
    """

    name: str = "mcp-bridge"
    directory: Path = field(default_factory=Path)
    settings_file: Path = field(default_factory=Path)
    redis_url: str | None = None
    redactor: Redactor = field(default_factory=Redactor)
