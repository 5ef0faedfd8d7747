"""For tests of sandboxes: both mechanisms, and programs in a sandbox."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._runtime import sandbox
from mcp_bridge._runtime.platform import system
from mcp_bridge._runtime.sandbox import SandboxOptions
from mcp_bridge._runtime.sandbox.landlock import find_kernel_problem
from tests.kits.constants import TIMEOUT

MEMORY = 512 * 1024**2
PREAMBLE = """
import ctypes, errno, fcntl, json, os, resource, signal, socket, subprocess, sys, tempfile
libc = ctypes.CDLL(None, use_errno=True)
def syscall(number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    return "success" if result >= 0 else errno.errorcode[ctypes.get_errno()]
def attempt(function, *arguments):
    try:
        return f"success: {function(*arguments)!r}"
    except OSError as error:
        return errno.errorcode[error.errno]
outcomes = {}
"""
"""The start of each script of an attack."""


def explain_missing_bubblewrap() -> str:
    """Return why bubblewrap cannot create a sandbox on this machine, or an empty text."""
    if shutil.which("bwrap") is None:
        return "there is no bubblewrap"
    command = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    return f"bubblewrap cannot create a sandbox: {result.stderr.strip()}" if result.returncode else ""


MISSING_BUBBLEWRAP = explain_missing_bubblewrap()
MISSING_LANDLOCK = find_kernel_problem()
needs_bubblewrap = pytest.mark.skipif(bool(MISSING_BUBBLEWRAP), reason=f"NOT TESTED: {MISSING_BUBBLEWRAP}")
needs_landlock = pytest.mark.skipif(bool(MISSING_LANDLOCK), reason=f"NOT TESTED: {MISSING_LANDLOCK}")
on_both_mechanisms = pytest.mark.parametrize(
    "mechanism", [pytest.param("bubblewrap", marks=needs_bubblewrap), pytest.param("landlock", marks=needs_landlock)]
)


def run_in_sandbox(folder: Path, script: str, *arguments: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a Python script in a sandbox below a supervisor. `options` are those of the sandbox, by default Landlock."""
    command = [sys.executable, "-I", "-S", "-c", script, *map(str, arguments)]
    return run_command_in_sandbox(folder, command, **options)


def run_command_in_sandbox(folder: Path, command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    sandbox_options = SandboxOptions(**{"type": "landlock", **options})
    sandboxed_command = sandbox.build_command(command, sandbox_options, str(folder), MEMORY)
    return subprocess.run(
        system.wrap_command(sandboxed_command),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
        start_new_session=True,
    )


def attack(folder: Path, script: str, *arguments: Any, **options: Any) -> dict[str, str]:
    """Run a script that writes into `outcomes` in a sandbox, by default with Landlock, and return them."""
    result = run_in_sandbox(folder, f"{PREAMBLE}{script}\nprint(json.dumps(outcomes))", *arguments, **options)
    assert result.returncode == 0, result.stderr
    outcomes: dict[str, str] = json.loads(result.stdout)
    return outcomes
