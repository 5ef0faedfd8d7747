"""No command imports the modules of an isolated source in the process of the bridge."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Each import writes its process id, and whether the process is a worker (`python -m mcp_bridge._isolation.worker`).
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
def test_modules_of_an_isolated_source_are_not_imported_in_the_bridge(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "own_tools.py").write_text(TOOLS)
    source = {"type": "python", "path": "own_tools.py", "isolation": "process"}
    (tmp_path / "mcp-bridge.json").write_text(json.dumps({"sources": [source]}))
    running = subprocess.Popen(
        [sys.executable, "-m", "mcp_bridge", *command], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    text, error_text = running.communicate(timeout=60)
    assert running.returncode == 0, error_text
    assert b"Traceback" not in error_text
    import_lines = (tmp_path / "imports.txt").read_text().splitlines()
    assert import_lines
    assert all(line.endswith("True") and line.split()[0] != str(running.pid) for line in import_lines)
    if command[0] == "call":
        assert text.strip().decode() == import_lines[0].split()[0]
    # No worker outlives the command. Only Linux has /proc.
    assert not any(Path(f"/proc/{line.split()[0]}").exists() for line in import_lines) or os.name == "nt"


PRINTING = """
import os
from mcp_bridge import tool

@tool
def shout() -> str:
    os.write(2, b"2026-01-01 00:00:00,000 INFO mcp_bridge: forged\\n\\x1b]0;owned\\x07\\xc2\\x9b2J\\n")
    return "\\x1b[2Jdone\\u202e"
"""


def test_output_of_a_worker_cannot_control_the_terminal_or_forge_the_log(tmp_path: Path) -> None:
    (tmp_path / "own_tools.py").write_text(PRINTING)
    source = {"type": "python", "name": "noisy", "path": "own_tools.py", "isolation": "process"}
    (tmp_path / "mcp-bridge.json").write_text(json.dumps({"sources": [source]}))
    command = [sys.executable, "-m", "mcp_bridge", "call", "shout"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert process.stdout == "\\x1b[2Jdone\\u202e\n"
    lines = process.stderr.splitlines()
    assert "[noisy] 2026-01-01 00:00:00,000 INFO mcp_bridge: forged" in lines
    assert "[noisy] \\x1b]0;owned\\x07\\x9b2J" in lines
    assert not any(line.startswith("2026-01-01") for line in lines)
    process = subprocess.run([*command, "--json"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(process.stdout)["output"] == "\x1b[2Jdone\u202e"
    assert "\x1b" not in process.stdout
    assert "\u202e" not in process.stdout
