"""Hides /proc, which only Linux has, from all code but this kit and psutil: they read it under another name."""

from __future__ import annotations

import builtins
import functools
import io
import os
from collections.abc import Callable
from typing import Any


def hide_proc() -> None:
    """Let functions for files not find anything below /proc."""
    for name in ("access", "listdir", "lstat", "open", "readlink", "scandir", "stat"):
        setattr(os, name, _hide(getattr(os, name), result=False if name == "access" else None))
    io.open = builtins.open = _hide(io.open)


def _hide(real: Callable[..., Any], result: object = None) -> Callable[..., Any]:
    @functools.wraps(real)
    def call(path: Any = ".", *args: Any, **options: Any) -> Any:
        text = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
        if isinstance(text, str) and (text == "/proc" or text.startswith("/proc/")):
            if result is not None:
                return result
            raise FileNotFoundError(2, "No such file or directory", text)
        return real(path, *args, **options)

    return call
