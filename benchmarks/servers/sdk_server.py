"""The SDK's low-level Server, bare, with the SDK's own transports. It sets the scale.

It validates nothing, and `get_tool_input_schema` is set so that a call over HTTP does not read the whole tools/list. So
it is the cheapest server of the SDK.
"""

import asyncio
import base64

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from benchmarks.servers.command_line import parse_options, serve_http
from benchmarks.servers.content import NOTES, NOTES_URI, PNG, REPORT
from benchmarks.servers.offer import EXAMPLE_TOOLS, INPUT_SCHEMA, has_examples, list_descriptions

TEXTS = {
    "add": lambda arguments: str(arguments["a"] + arguments["b"]),
    "add_async": lambda arguments: str(arguments["a"] + arguments["b"]),
    "place_order": lambda arguments: arguments["order"]["customer"],
    "write_report": lambda arguments: f"{arguments['text']}\n{REPORT}",
}
"""How a tool of the examples makes its text from the arguments. The other tools return the argument `text`."""


async def list_tools(ctx, params):
    return types.ListToolsResult(tools=TOOLS)


async def call_tool(ctx, params):
    if params.name == "draw_chart":
        data = base64.b64encode(PNG).decode()
        return types.CallToolResult(content=[types.ImageContent(type="image", data=data, mime_type="image/png")])
    make_text = TEXTS.get(params.name)
    if make_text is None:
        text = params.arguments["text"]
    else:
        text = make_text(params.arguments)
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


async def list_resources(ctx, params):
    return types.ListResourcesResult(resources=[types.Resource(name="notes", uri=NOTES_URI)])


async def read_resource(ctx, params):
    contents = types.TextResourceContents(uri=params.uri, mime_type="text/plain", text=NOTES)
    return types.ReadResourceResult(contents=[contents])


async def list_prompts(ctx, params):
    argument = types.PromptArgument(name="text", required=True)
    return types.ListPromptsResult(prompts=[types.Prompt(name="summarize", arguments=[argument])])


async def get_prompt(ctx, params):
    content = types.TextContent(type="text", text=f"Summarize: {params.arguments['text']}")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])


def make_tools():
    """Return the tools. The schemas of the examples are not used in calls, so they are empty."""
    tools = [
        types.Tool(name=name, description=description, input_schema=INPUT_SCHEMA)
        for name, description in list_descriptions().items()
    ]
    if has_examples():
        tools += [types.Tool(name=name, input_schema={"type": "object"}) for name in EXAMPLE_TOOLS]
    return tools


TOOLS = make_tools()
SCHEMAS = {tool.name: tool.input_schema for tool in TOOLS}


def make_server():
    handlers = {"on_list_tools": list_tools, "on_call_tool": call_tool}
    if has_examples():
        handlers |= {"on_list_resources": list_resources, "on_read_resource": read_resource}
        handlers |= {"on_list_prompts": list_prompts, "on_get_prompt": get_prompt}
    return Server("sdk", version="1", get_tool_input_schema=SCHEMAS.get, **handlers)


async def serve_stdio():
    server = make_server()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def main():
    options = parse_options(__doc__)
    if options.http:
        serve_http(make_server().streamable_http_app(json_response=options.json_response), options.http)
    else:
        asyncio.run(serve_stdio())


if __name__ == "__main__":
    main()
