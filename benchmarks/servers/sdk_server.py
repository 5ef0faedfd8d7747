"""The rival that sets the scale: the SDK's lowlevel Server, bare, with the SDK's own transports.

It validates nothing, and `get_tool_input_schema` is set so that a call over HTTP does not walk the
whole tools/list: what remains is the cheapest server the SDK can be.
"""

import argparse
import asyncio

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from benchmarks.servers.offer import INPUT_SCHEMA, descriptions

TOOLS = [types.Tool(name=name, description=text, input_schema=INPUT_SCHEMA) for name, text in descriptions().items()]
SCHEMAS = {tool.name: tool.input_schema for tool in TOOLS}


async def list_tools(ctx, params):
    return types.ListToolsResult(tools=TOOLS)


async def call_tool(ctx, params):
    return types.CallToolResult(content=[types.TextContent(type="text", text=params.arguments["text"])])


def build():
    return Server(
        "sdk",
        version="1",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema=SCHEMAS.get,
    )


async def serve_stdio():
    server = build()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def serve_http(port, *, json_response):
    import uvicorn

    app = build().streamable_http_app(json_response=json_response)
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=port,
        loop="uvloop",
        http="httptools",
        log_level="warning",
        access_log=False,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--http", type=int, metavar="PORT", help="serve Streamable HTTP instead of stdio")
    parser.add_argument("--json-response", action="store_true", help="JSON replies, not the SDK's default")
    options = parser.parse_args()
    if options.http:
        serve_http(options.http, json_response=options.json_response)
    else:
        asyncio.run(serve_stdio())


if __name__ == "__main__":
    main()
