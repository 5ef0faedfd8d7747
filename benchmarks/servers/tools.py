"""The tools that the bridge serves: `echo`, and copies of it that are only listed."""

from benchmarks.servers.offer import ECHO, INPUT_SCHEMA, list_descriptions
from mcp_bridge import tool

DESCRIPTIONS = list_descriptions()


@tool(name=ECHO, description=DESCRIPTIONS[ECHO], input_schema=INPUT_SCHEMA)
async def echo(arguments):
    return arguments["text"]


def make_copy(name, description):
    """Return a tool like `echo`, under another name."""

    @tool(name=name, description=description, input_schema=INPUT_SCHEMA)
    async def answer(arguments):
        return arguments["text"]

    answer.__name__ = answer.__qualname__ = name
    return answer


for name, description in DESCRIPTIONS.items():
    if name != ECHO:
        globals()[name] = make_copy(name, description)
