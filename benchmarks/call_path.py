"""Count what one `tools/call` over stdio passes: `python -m benchmarks.call_path [--list]`.

Each server runs under a profile function. Its tool forgets what was recorded in the third call and prints the record in
the sixth, so the record has every function of a warm call, from the bytes of the request to those of the response.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGES = {"bridge": "mcp_bridge", "sdk": "mcp"}
SERVER = """
import json, sys, threading

calls, functions = 0, set()


def record(frame, event, arg):
    if event == "call":
        functions.add((frame.f_code.co_filename, frame.f_code.co_qualname))


async def add(a: int, b: int) -> int:
    '''Add two numbers.'''
    global calls
    calls += 1
    if calls == 3:
        functions.clear()
    if calls == 6:
        with open({output!r}, "w") as file:
            json.dump(sorted(functions.copy()), file)
    return a + b


threading.setprofile(record)
sys.setprofile(record)
if {server!r} == "bridge":
    from mcp_bridge import ToolRegistry, serve

    registry = ToolRegistry()
    registry.tool(add)
    serve(registry)
else:
    from mcp.server import MCPServer

    server = MCPServer("sums")
    server.tool()(add)
    server.run("stdio")
"""
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "path", "version": "1"}}


def trace_call(server):
    """Return the functions of the server's package that a call passes, as pairs of a file and a name."""
    (folder,) = importlib.util.find_spec(PACKAGES[server]).submodule_search_locations
    with tempfile.NamedTemporaryFile("r") as output:
        code = SERVER.format(server=server, output=output.name)
        process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with process:
            exchange(process, "initialize", HELLO, 0)
            send(process, {"method": "notifications/initialized"})
            for number in range(1, 8):
                exchange(process, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}, number)
            process.stdin.close()
        return sorted(
            (str(Path(file).relative_to(folder)), name)
            for file, name in json.load(output)
            if Path(folder) in Path(file).parents
        )


def exchange(process, method, params, number):
    send(process, {"id": number, "method": method, "params": params})
    while json.loads(process.stdout.readline()).get("id") != number:
        pass


def send(process, message):
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n")
    process.stdin.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="print each function of the bridge")
    options = parser.parse_args()
    for server in PACKAGES:
        functions = trace_call(server)
        print(f"{server:8} {len(functions):4} functions in {len({file for file, _ in functions})} files")
        if options.list and server == "bridge":
            print("\n".join(f"  {file} {name}" for file, name in functions))


if __name__ == "__main__":
    main()
