"""Data that JSON does not have, made judgeable: a copy that the library can read, and where it differs.

In process a tool may be given anything: bytes, sets, objects, keys that are not text, lone surrogates, cycles.
The tool_use API lets them pass wherever no keyword says otherwise; so does this.
"""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 200
"""How deep data is judged; what lies deeper counts as foreign. The library's own recursion is not bounded."""
WIDEST = 1024
"""Bits of the widest integer that is judged."""


def translate(data: Any) -> tuple[Any, set[str]]:
    """A JSON-ready copy of `data`, and the paths at which a null stands for something else. Never raises."""
    paths: set[str] = set()
    return _translate(data, "$", paths, 0), paths


def _translate(data: Any, path: str, paths: set[str], depth: int) -> Any:
    if depth <= MAX_DEPTH:
        if isinstance(data, dict):
            items = ((_text(key), value) for key, value in data.items())
            return {key: _translate(value, f"{path}.{key}", paths, depth + 1) for key, value in items}
        if isinstance(data, list | tuple):
            return [_translate(item, f"{path}[{index}]", paths, depth + 1) for index, item in enumerate(data)]
        if data is None or isinstance(data, bool | float):
            return data
        if isinstance(data, str):
            return _clean(data)
        if isinstance(data, int) and data.bit_length() <= WIDEST:
            return int(data)
    paths.add(path)
    return None


def _text(key: Any) -> str:
    if isinstance(key, str):
        return _clean(key)
    try:
        return _clean(str(key))
    except Exception:  # a stranger's __str__, or an integer beyond all limits
        return f"<{type(key).__name__}>"


def _clean(text: str) -> str:
    """Lone surrogates as question marks, one for one, so that lengths stay."""
    return text.encode("utf-8", "replace").decode() if not text.isascii() else str(text)
