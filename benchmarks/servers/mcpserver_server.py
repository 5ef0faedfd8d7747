"""The SDK's high-level server, MCPServer, as it comes, with its log at warnings.

The results of `echo` are not structured, because those of the others are text alone.
"""

from mcp.server.mcpserver import Context, Image, MCPServer

from benchmarks.servers.command_line import parse_options, serve_http
from benchmarks.servers.examples import add_examples
from benchmarks.servers.offer import has_examples, list_descriptions


async def echo(text: str) -> str:
    return text


def main():
    options = parse_options(__doc__)
    server = MCPServer("mcpserver", version="1", log_level="WARNING")
    for name, description in list_descriptions().items():
        server.add_tool(echo, name=name, description=description, structured_output=False)
    if has_examples():
        add_examples(server, Context, Image)
    if options.http:
        serve_http(server.streamable_http_app(), options.http)
    else:
        server.run("stdio")


if __name__ == "__main__":
    main()
