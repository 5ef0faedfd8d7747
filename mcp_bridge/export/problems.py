"""What an export had to change, or could not say: by tool, and by the place in its schema."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing to know about an exported tool. `tool` is its registered name, `path` a JSON path into its schema."""

    tool: str
    path: str
    text: str

    def __str__(self) -> str:
        return f"tool '{self.tool}': {self.path}: {self.text}"
