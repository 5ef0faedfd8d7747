"""Every command leaves an isolated source to its workers: nothing of it is imported in the bridge's own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = """
import os, sys
from mcp_bridge import tool

with open("imports.txt", "a") as file:
    file.write(f"{os.getpid()} {'isolation' in ' '.join(sys.orig_argv)}\\n")

@tool
def pid() -> int:
    return os.getpid()
"""


@pytest.mark.parametrize("command", [["list"], ["validate"], ["call", "pid"]], ids=lambda command: command[0])
def test_nothing_is_imported_here(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "own_tools.py").write_text(TOOLS)
    source = {"type": "python", "path": "own_tools.py", "isolation": "process"}
    (tmp_path / "mcp-bridge.json").write_text(json.dumps({"sources": [source]}))
    running = subprocess.Popen(
        [sys.executable, "-m", "mcp_bridge", *command], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    said, told = running.communicate(timeout=60)
    assert running.returncode == 0, told
    assert b"Traceback" not in told
    imported = (tmp_path / "imports.txt").read_text().splitlines()
    assert imported
    assert all(line.endswith("True") and line.split()[0] != str(running.pid) for line in imported)
    if command[0] == "call":
        assert said.strip().decode() == imported[0].split()[0]
    assert not any(Path(f"/proc/{line.split()[0]}").exists() for line in imported) or os.name == "nt"
