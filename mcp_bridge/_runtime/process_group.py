"""Starts child processes, each with a process group, which ends together with its descendants."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import anyio
from anyio.abc import Process

from mcp_bridge._runtime.platform import system


def build_environment(*named: str) -> dict[str, str]:
    """Return the environment of a child: the usual variables and the named ones, if they are set.

    A child gets no other variables, because they may contain secrets of the bridge.
    """
    return {name: os.environ[name] for name in (*system.USUAL_VARIABLES, *named) if name in os.environ}


async def open_process(
    command: Sequence[str], *, descriptors: Sequence[int] = (), **options: Any
) -> tuple[Process, system.ProcessGroup]:
    """Start a process in a group. Raises OSError, or ValueError if a word has a null character.

    Args:
        command: The program and its arguments. `system.wrap_command` adds a supervisor.
        descriptors: The descriptors that the process inherits in addition to its standard streams.
        **options: Options of `anyio.open_process`.
    """
    # If the start were cancelled after the process exists, the process would have no owner to end it.
    with anyio.CancelScope(shield=True):
        group_options = system.make_child_options(descriptors=descriptors)
        process = await anyio.open_process(command, **options, **group_options)
        try:
            group = system.ProcessGroup(process.pid)
        except OSError:
            await process.aclose()
            raise
    return process, group
