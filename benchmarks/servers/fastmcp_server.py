"""FastMCP as it comes, without its banner and its access log.

The results of `echo` are not structured, because those of the others are text alone.
"""

from fastmcp import Context, FastMCP
from fastmcp.utilities.types import Image

from benchmarks.servers.command_line import parse_options
from benchmarks.servers.examples import add_examples
from benchmarks.servers.offer import has_examples, list_descriptions


async def echo(text: str) -> str:
    return text


def main():
    options = parse_options(__doc__)
    server = FastMCP("fastmcp", version="1")
    for name, description in list_descriptions().items():
        server.tool(echo, name=name, description=description, output_schema=None)
    if has_examples():
        add_examples(server, Context, Image)
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
