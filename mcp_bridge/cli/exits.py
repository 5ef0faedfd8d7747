"""Exit codes, and errors as a person reads them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from enum import IntEnum

from mcp_bridge.contracts.errors import BridgeError, ConfigError, ToolNotFound


class Exit(IntEnum):
    """What the command's exit code means."""

    OK = 0
    FAILED = 1
    """A called tool failed, `validate` or `doctor` found something, or no source could be loaded."""
    USAGE = 2
    """Wrong options, or settings that cannot be used."""
    NOT_FOUND = 3
    """There is no tool of that name."""


def say(line: str) -> None:
    """A line for the person, on stderr."""
    print(line, file=sys.stderr, flush=True)


def counted(number: int, thing: str) -> str:
    """`1 tool`, `2 tools`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


@contextlib.contextmanager
def errors_for_people() -> Iterator[None]:
    """Turn the package's own errors into a line on stderr and an exit code; others are bugs and stay loud."""
    try:
        yield
    except BridgeError as error:
        say(f"mcp-bridge: {error}")
        raise SystemExit(code_of(error)) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def code_of(error: BridgeError) -> Exit:
    """The exit code of an error."""
    if isinstance(error, ConfigError):
        return Exit.USAGE
    return Exit.NOT_FOUND if isinstance(error, ToolNotFound) else Exit.FAILED
