"""The tool file that the bridge serves: `echo`, and BENCH_TOOLS - 1 tools that are only listed."""

from benchmarks.servers.offer import ECHO, INPUT_SCHEMA, descriptions
from mcp_bridge import tool

DESCRIPTIONS = descriptions()


@tool(name=ECHO, description=DESCRIPTIONS[ECHO], input_schema=INPUT_SCHEMA)
async def echo(arguments):
    return arguments["text"]


def filler(name, description):
    """One more tool like `echo`, under another name."""

    @tool(name=name, description=description, input_schema=INPUT_SCHEMA)
    async def answer(arguments):
        return arguments["text"]

    answer.__name__ = answer.__qualname__ = name
    return answer


globals().update({name: filler(name, text) for name, text in DESCRIPTIONS.items() if name != ECHO})
