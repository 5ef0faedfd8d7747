"""The stderr of upstreams appears line by line, with the name of the server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kits.upstream.upstream_kit import write_settings

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="servers on Windows inherit stderr")
SERVER = """
import json, sys
write = sys.stderr.buffer.write
write(b"one\\ntw"); sys.stderr.buffer.flush()
write(b"o\\r\\n\\x1b[31mred\\x1b[0m \\x1b]0;owned\\x07 \\xc2\\x9b2J back\\rforth\\n" + b"x" * 200_000 + b"\\n")
sys.stderr.buffer.flush()
for line in sys.stdin:
    request = json.loads(line)
    if request.get("method") == "initialize":
        info = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "p", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": info}), flush=True)
    elif "id" in request:
        error = {"code": -32601, "message": "unknown"}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}), flush=True)
write(b"the last one, without an end"); sys.stderr.buffer.flush()
"""


def run_bridge(folder: Path, *names: str) -> list[str]:
    """Return the lines on the stderr of a bridge. Its client disconnects immediately."""
    servers = {name: {"command": sys.executable, "args": ["-c", SERVER]} for name in names}
    file = write_settings(folder, servers)
    process = subprocess.run(
        [sys.executable, "-m", "mcp_bridge", "list", str(file)],
        env={**os.environ, "XDG_STATE_HOME": str(folder)},
        capture_output=True,
        timeout=60,
        check=True,
    )
    return process.stderr.decode().splitlines()


def test_each_line_of_stderr_has_the_name_of_its_server_and_none_is_lost(tmp_path: Path) -> None:
    lines = run_bridge(tmp_path, "files", "tickets")
    for name in ("files", "tickets"):
        lines_of_server = [line.removeprefix(f"[{name}] ") for line in lines if line.startswith(f"[{name}] ")]
        assert lines_of_server[:3] == ["one", "two", "red \\x1b]0;owned\\x07 \\x9b2J back\\rforth"]
        assert all(len(line) < 4_096 for line in lines)
        assert lines_of_server[-1] == "the last one, without an end"
        assert "".join(lines_of_server[3:-1]) == "x" * 200_000
    further_lines = [line for line in lines if not line.startswith(("[files] ", "[tickets] "))]
    assert further_lines == ["no tools"]
