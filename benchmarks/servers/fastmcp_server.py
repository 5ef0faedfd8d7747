"""The second rival: FastMCP as it comes, with its banner, its access log and structured output off.

Structured output is off because the others answer with text alone; with it FastMCP would do more.
"""

import argparse

from fastmcp import FastMCP

from benchmarks.servers.offer import descriptions


async def echo(text: str) -> str:
    return text


def build():
    server = FastMCP("fastmcp", version="1")
    for name, text in descriptions().items():
        server.tool(echo, name=name, description=text, output_schema=None)
    return server


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--http", type=int, metavar="PORT", help="serve Streamable HTTP instead of stdio")
    options = parser.parse_args()
    server = build()
    if options.http:
        server.run(
            transport="http",
            show_banner=False,
            host="127.0.0.1",
            port=options.http,
            log_level="warning",
            uvicorn_config={"loop": "uvloop", "http": "httptools", "access_log": False},
        )
    else:
        server.run(transport="stdio", show_banner=False, log_level="warning")


if __name__ == "__main__":
    main()
