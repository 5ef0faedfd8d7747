"""The savings and the cost of tool search, with 500 tools of invented services.

Run as `python -m benchmarks.tool_search`. Tokens are estimated as bytes of the JSON divided by 4. Times are CPU of this
process; calls through `call_tool` and direct ones take turns, and the median is printed.
"""

import argparse
import statistics
import time

import anyio
import orjson

from mcp_bridge import ToolEntry, ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._contracts.identity import Identity
from mcp_bridge._contracts.listing import SearchPolicy, ToolListing
from mcp_bridge._protocol.wire.tools import to_wire
from mcp_bridge._server.tools.search_index import SearchIndex
from mcp_bridge.testing import connect

SERVICES = (
    *("github", "gitlab", "jira", "linear", "slack", "teams", "gmail", "outlook", "calendar", "drive", "dropbox"),
    *("notion", "confluence", "salesforce", "hubspot", "stripe", "paypal", "shopify", "sentry", "datadog", "grafana"),
    *("postgres", "mysql", "mongo", "redis"),
)
ACTIONS = {
    "create": "Create a new {} in {}",
    "get": "Return one {} of {} by its id",
    "list": "List every {} in {}, newest first",
    "update": "Change the fields of a {} in {}",
    "delete": "Delete a {} from {} for good",
}
THINGS = ["project", "user", "report", "comment"]


def make_tools():
    """Return 500 tools: 25 services, 5 actions, 4 things."""
    return [
        make_tool(service, action, text, thing)
        for service in SERVICES
        for action, text in ACTIONS.items()
        for thing in THINGS
    ]


def make_tool(service, action, text, thing):
    properties = {
        "id": {"type": "string", "description": f"The id of the {thing}, as list_{thing}s returns it."},
        "workspace": {"type": "string", "description": f"The {service} workspace. Default: that of the user."},
        "fields": {"type": "object", "description": "Names of fields and their values.", "additionalProperties": True},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20},
        "dry_run": {"type": "boolean", "default": False, "description": "Only report what would happen."},
    }
    description = (
        f"{text.format(thing, service)}. Needs the permission to {action} a {thing} in the workspace. Fails with "
        "not_found if the id does not exist, and with forbidden if the user may not see it."
    )
    schema = {"type": "object", "properties": properties, "required": ["id"]}
    return ToolEntry(f"{service}__{action}_{thing}", description, echo, schema)


async def echo(data):
    return data["id"]


def estimate_tokens(value):
    return len(orjson.dumps(value)) // 4


async def measure_lists(search):
    """Return the number and the tokens of the listed tools, and the tokens of one search, 0 without search."""
    async with connect_to_tools(search) as client:
        tools, cursor = [], None
        while True:
            page = await client.list_tools(cursor=cursor)
            tools += [tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                break
        if search is None:
            return len(tools), estimate_tokens(tools), 0
        result = await client.call_tool("search_tools", {"query": "open a new report in jira"})
        return len(tools), estimate_tokens(tools), len(result.content[0].text.encode()) // 4


def connect_to_tools(search):
    registry = ToolRegistry()
    registry.publish("many", make_tools())
    return connect(Bridge(registry, identity=Identity(listing=ToolListing(search=search))))


async def measure_calls(calls, rounds):
    """Return the microseconds of CPU per direct call and per call through `call_tool`, including the client."""
    arguments = {"id": "7"}
    indirect = {"name": "jira__create_report", "arguments": arguments}
    direct_times, indirect_times = [], []
    async with connect_to_tools(SearchPolicy(keep=("jira__create_report",))) as client:
        for _ in range(rounds):
            for times, name, params in (
                (direct_times, "jira__create_report", arguments),
                (indirect_times, "call_tool", indirect),
            ):
                started = time.process_time()
                for _ in range(calls):
                    await client.call_tool(name, params)
                times.append((time.process_time() - started) / calls * 1e6)
    return statistics.median(direct_times[1:]), statistics.median(indirect_times[1:])


def measure_index():
    """Return the milliseconds to build the index, and per search."""
    tools = [to_wire(entry.to_tool_definition()) for entry in make_tools()]
    start = time.process_time()
    index = SearchIndex(tools)
    middle = time.process_time()
    for _ in range(100):
        index.find_names("open a new report in jira", 5)
    return (middle - start) * 1000, (time.process_time() - middle) * 1000 / 100


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    for title, search in (("all listed", None), ("tool search", SearchPolicy())):
        count, tokens, search_tokens = anyio.run(measure_lists, search)
        line = f"{title:12} tools/list has {count:3} tools, {tokens:7,} tokens"
        if search_tokens:
            line += f", a search {search_tokens:,}"
        print(line)
    build_time, search_time = measure_index()
    print(f"index        built in {build_time:.1f} ms, a search takes {search_time:.2f} ms")
    direct, indirect = anyio.run(measure_calls, options.calls, options.rounds)
    print(f"calls        direct {direct:.0f} us, with call_tool {indirect:.0f} us (with the SDK's client)")


if __name__ == "__main__":
    main()
