"""What an export had to change, or could not say: by tool, and by the place in its schema."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PLAIN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing to know about an exported tool. `tool` is its registered name, `path` a JSON path into its schema."""

    tool: str
    path: str
    text: str

    def __str__(self) -> str:
        return f"tool '{self.tool}': {self.path}: {self.text}"


def below(path: str, *keys: str | int) -> str:
    """The JSON path of what is at these keys below a path: `$.properties.city`, `$.anyOf[0]`, `$["a b"]`."""
    for key in keys:
        if isinstance(key, int):
            path += f"[{key}]"
        elif _PLAIN.fullmatch(key):
            path += f".{key}"
        else:
            path += '["' + key.replace("\\", "\\\\").replace('"', '\\"') + '"]'
    return path
