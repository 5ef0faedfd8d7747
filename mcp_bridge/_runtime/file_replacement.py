"""Replaces files atomically: readers find either the old content or the new one, never a part of it."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, content: bytes, *, mode: int = 0o600, sync: bool = False) -> None:
    """Write a temporary file next to the old one, and rename it. Creates the folder. Raises OSError.

    Args:
        path: The file.
        content: All of its new content.
        mode: The permissions, from which the umask is subtracted.
        sync: Whether the content is on the disk when this returns.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name[:100]}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
