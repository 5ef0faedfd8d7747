"""How fast a client of a shared server starts: from its start to the response to `initialize`.

Run as `python -m benchmarks.shared`. Each round measures all cases in turn. The reference is a bare Python that imports
asyncio and writes a line.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 15
TOOLS = '''from mcp_bridge import tool

@tool
def echo(text: str) -> str:
    """Return the text."""
    return text
'''
CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
INITIALIZE = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": CLIENT}).encode() + b"\n"
BRIDGE = [sys.executable, "-m", "mcp_bridge"]
CASES = {
    "Python with asyncio": [sys.executable, "-c", "import asyncio; print(flush=True)"],
    "serve --shared": [*BRIDGE, "serve", "--shared", "tools.py"],
    "serve": [*BRIDGE, "serve", "tools.py"],
}


def measure_start(command, folder, env):
    """Return the seconds until the first line, and the CPU seconds of the process until its end."""
    before, began = os.times(), time.perf_counter()
    with subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            process.stdin.write(INITIALIZE)
            process.stdin.flush()
        except BrokenPipeError:
            pass
        process.stdout.readline()
        wall = time.perf_counter() - began
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, spent


def main():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "tools.py").write_text(TOOLS)
        env = {**os.environ, "XDG_STATE_HOME": folder}
        measure_start(CASES["serve --shared"], folder, env)  # starts the server
        found = {name: [] for name in CASES}
        for _ in range(ROUNDS):
            for name, command in CASES.items():
                found[name].append(measure_start(command, folder, env))
        subprocess.run([*BRIDGE, "shared", "stop"], env=env, check=True, stderr=subprocess.DEVNULL)
        time.sleep(1)
    wall, cpu = ({name: statistics.median(each[i] for each in all_) for name, all_ in found.items()} for i in (0, 1))
    base = "Python with asyncio"
    for name in CASES:
        ratio = f"{wall[name] / wall[base]:.2f} x"
        print(f"{name:20}  {wall[name] * 1000:7.1f} ms  {cpu[name] * 1000:7.1f} ms CPU  {ratio}")


if __name__ == "__main__":
    main()
