"""The same tools as in tools.py, with schemas and descriptions from signatures and docstrings."""

from benchmarks.servers.offer import list_descriptions
from mcp_bridge import tool


def make_tool(name, description):
    """Return a tool that returns its argument."""

    async def answer(text: str) -> str:
        return text

    answer.__name__ = answer.__qualname__ = name
    answer.__doc__ = f"{description}\n\nArgs:\n    text: What to answer with."
    return tool(answer)


globals().update({name: make_tool(name, text) for name, text in list_descriptions().items()})
