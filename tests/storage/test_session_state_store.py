"""Servers with a common store do not share the state of their clients on stdio."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.kits.http.http_hosting import make_stateless_request

TOOLS = """
from mcp_bridge import CallContext, tool

@tool
async def count(ctx: CallContext) -> int:
    number = await ctx.get_state("number", 0) + 1
    await ctx.set_state("number", number)
    return number
"""
SETTINGS = """
sources:
  - type: python
    path: tools.py
state:
  store: sqlite:state.db
"""


def test_each_process_has_its_own_state(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "mcp-bridge.yaml").write_text(SETTINGS)
    message = make_stateless_request("tools/call", {"name": "count", "arguments": {}})["json"]
    texts = []
    for _ in range(2):
        command = [sys.executable, "-m", "mcp_bridge", "serve"]
        result = subprocess.run(
            command, cwd=tmp_path, input=f"{json.dumps(message)}\n", capture_output=True, text=True, timeout=60
        )
        texts.append([json.loads(line)["result"]["content"][0]["text"] for line in result.stdout.splitlines()])
    assert texts == [["1"], ["1"]]
