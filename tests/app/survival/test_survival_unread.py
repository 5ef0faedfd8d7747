"""The server keeps working for a client that never reads its stderr."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.kits.constants import ENVELOPE, TIMEOUT

TOOLS = '''
import os
import sys

from mcp_bridge import tool


@tool
async def flood() -> str:
    """Say more than a pipe holds, in the event loop."""
    for _ in range(4096):
        os.write(2, b"x" * 1024)
    print("y" * 100_000, file=sys.stderr, flush=True)
    return "said"


@tool
def fail() -> None:
    """Have the bridge log a traceback."""
    raise RuntimeError("z" * 100_000)
'''


def make_call_line(number: int, name: str) -> bytes:
    """Return the line of a stateless call."""
    params = {"name": name, "arguments": {}, "_meta": ENVELOPE}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode() + b"\n"


def test_a_client_that_never_reads_stderr_gets_responses(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    process = subprocess.Popen(
        [sys.executable, "-m", "mcp_bridge", "serve", "tools.py"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number, name in enumerate(("flood", "fail", "fail", "flood")):
            process.stdin.write(make_call_line(number, name))
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == number
        process.stdin.close()
        assert process.wait(TIMEOUT) == 0
