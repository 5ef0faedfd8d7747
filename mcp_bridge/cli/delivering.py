"""Where an export goes: to stdout, or to a file that is there whole or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from mcp_bridge.cli.exits import say
from mcp_bridge.contracts.errors import ConfigError


def deliver(text: str, output: Path | None) -> None:
    """Print a text, or write it to a file. Raises ConfigError for a file that cannot be written."""
    if output is None:
        print(text, end="" if text.endswith("\n") else "\n")
        return
    write(text.rstrip("\n").encode("utf-8", errors="replace") + b"\n", output)
    say(f"written to {output}")


def write(content: bytes, output: Path) -> None:
    """Write a file in one step. Raises ConfigError."""
    beside = output.with_name(f".{output.name}.{os.getpid()}")
    special = output.exists() and not output.is_file()  # a pipe, or a terminal: nothing may be put in its place
    try:
        if special:
            output.write_bytes(content)
            return
        with contextlib.ExitStack() as undo:
            with beside.open("xb") as file:
                undo.callback(beside.unlink)
                file.write(content)
            beside.replace(output.resolve())
            undo.pop_all()
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", path=str(output), hint="Name another file") from error
