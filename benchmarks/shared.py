"""The time from the start of a client of a shared server to the response to `initialize`.

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
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, cpu


def main():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "tools.py").write_text(TOOLS)
        env = {**os.environ, "XDG_STATE_HOME": folder}
        # The first client starts the server.
        measure_start(CASES["serve --shared"], folder, env)
        seconds = {name: [] for name in CASES}
        cpu_seconds = {name: [] for name in CASES}
        for _ in range(ROUNDS):
            for name, command in CASES.items():
                wall, cpu = measure_start(command, folder, env)
                seconds[name].append(wall)
                cpu_seconds[name].append(cpu)
        subprocess.run([*BRIDGE, "shared", "stop"], env=env, check=True, stderr=subprocess.DEVNULL)
        time.sleep(1)
    base = statistics.median(seconds["Python with asyncio"])
    for name in CASES:
        wall, cpu = statistics.median(seconds[name]), statistics.median(cpu_seconds[name])
        print(f"{name:20}  {wall * 1000:7.1f} ms  {cpu * 1000:7.1f} ms CPU  {wall / base:.2f} x")


if __name__ == "__main__":
    main()
