"""The tools that every compared server lists: names, descriptions and an input schema. It imports no framework."""

import os

ECHO = "echo"
ECHO_DESCRIPTION = "Answer with the text that was given."
INPUT_SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
EXAMPLE_TOOLS = ("add", "add_async", "place_order", "greet", "write_report", "draw_chart")
"""The tools of examples.py. A server has them if the environment variable BENCH_EXAMPLES is set."""


def has_examples() -> bool:
    """Return whether this server offers the tools, the resource and the prompt of examples.py."""
    return "BENCH_EXAMPLES" in os.environ


def count_tools() -> int:
    """Return how many tools to offer in all: BENCH_TOOLS, by default 10."""
    return int(os.environ.get("BENCH_TOOLS", "10"))


def list_descriptions() -> dict[str, str]:
    """Return the descriptions of `echo` and of its copies, which are only listed, by name."""
    descriptions = {ECHO: ECHO_DESCRIPTION}
    copies = count_tools() - 1
    if has_examples():
        copies -= len(EXAMPLE_TOOLS)
    for number in range(1, copies + 1):
        descriptions[f"filler_{number:04}"] = f"Filler {number}: answers as echo does."
    return descriptions
