"""Tries whether a program can run in a sandbox."""

from __future__ import annotations

import subprocess
import sys

import anyio

from mcp_bridge._runtime.platform import system

PROGRAM = [sys.executable, "-I", "-S", "-c", ""]
"""A program that ends at once."""
_TIMEOUT = 10.0


async def find_start_problem(command: list[str]) -> str:
    """Run a command below a supervisor, and return what it prints to stderr if it fails, else an empty text."""
    try:
        with anyio.fail_after(_TIMEOUT):
            supervised_command = system.wrap_command(command)
            process = await anyio.run_process(supervised_command, check=False, stdin=subprocess.DEVNULL)
    except (OSError, TimeoutError) as error:
        return str(error) or "it does not respond"
    if process.returncode == 0:
        return ""
    return process.stderr.decode(errors="replace").strip() or f"exit code {process.returncode}"
