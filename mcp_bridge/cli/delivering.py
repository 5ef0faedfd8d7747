"""Where an export goes: to stdout, or to a file that is there whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from mcp_bridge.cli.exits import say
from mcp_bridge.contracts.errors import ConfigError


def deliver(text: str, output: Path | None, *, kept: Iterable[Path] = ()) -> None:
    """Print a text, or write it to a file. Raises ConfigError for a file that cannot be, or must not be, written."""
    if output is None:
        print(text, end="" if text.endswith("\n") else "\n")
        return
    write(text.rstrip("\n").encode("utf-8", errors="replace") + b"\n", output, kept=kept)
    say(f"written to {output}")


def write(content: bytes, output: Path, *, kept: Iterable[Path] = ()) -> None:
    """Write a file in one step, but none of those that are to be kept. Raises ConfigError."""
    real = Path(os.path.realpath(output))  # beside what a link leads to: it may be another file system
    try:
        if output.exists() and any(each.exists() and output.samefile(each) for each in kept):
            hint = "It would be overwritten. Name another file"
            raise ConfigError("this is a file of the project itself", path=str(output), where="--output", hint=hint)
        if output.exists() and not output.is_file():  # a pipe, or a terminal: nothing may be put in its place
            output.write_bytes(content)
            return
        beside = real.with_name(f".mcp-bridge-{os.getpid()}")
        with contextlib.ExitStack() as undo:
            with beside.open("xb") as file:
                undo.callback(beside.unlink)
                file.write(content)
            beside.replace(real)
            undo.pop_all()
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", path=str(output), hint="Name another file") from error
