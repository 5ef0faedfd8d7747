"""FastMCP's proxy in front of one command: `fastmcp_proxy.py [--http PORT] COMMAND ARGS...`."""

import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy


def main():
    words = sys.argv[1:]
    port = int(words[1]) if words[0] == "--http" else 0
    command = words[2:] if port else words
    proxy = create_proxy(Client(StdioTransport(command=command[0], args=command[1:])))
    if port:
        options = {"host": "127.0.0.1", "port": port, "path": "/mcp"}
        proxy.run(transport="http", show_banner=False, **options, uvicorn_config={"access_log": False})
    else:
        proxy.run(show_banner=False)


if __name__ == "__main__":
    main()
