"""The extent of data: how large, how deep and of how many parts it is, against what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The most that data may be: `size` characters of text in all, `depth` levels, `nodes` values."""

    size: int = 4 * 1024 * 1024
    depth: int = 64
    nodes: int = 100_000

    def excess(self, data: Any) -> str | None:
        """What is too much about `data`, or None; ends at the first thing that is."""
        nodes, size, level = 0, 0, [data]
        for _ in range(self.depth + 1):
            if not level:
                return None
            below: list[Any] = []
            for value in level:
                nodes += 1
                if isinstance(value, str):
                    size += len(value)
                elif isinstance(value, Mapping):
                    size += sum(map(len, filter(_is_text, value)))
                    below.extend(value.values())
                elif isinstance(value, list | tuple):
                    below.extend(value)
                if size > self.size:
                    return f"more than {self.size} characters of text"
            if nodes + len(below) > self.nodes:
                return f"more than {self.nodes} values"
            level = below
        return f"nested deeper than {self.depth} levels" if level else None


def _is_text(key: Any) -> bool:
    return isinstance(key, str)
