"""What every compared server offers: the same names, descriptions and input schema."""

import os

ECHO = "echo"
ECHO_DESCRIPTION = "Answer with the text that was given."

INPUT_SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


def tool_count() -> int:
    """How many tools to offer, `echo` included: BENCH_TOOLS, 10 when unset."""
    return int(os.environ.get("BENCH_TOOLS", "10"))


def descriptions() -> dict[str, str]:
    """Name to description: `echo`, then the tools that are only listed and never called."""
    fillers = {f"filler_{n:04}": f"Filler {n}: answers as echo does." for n in range(1, tool_count())}
    return {ECHO: ECHO_DESCRIPTION, **fillers}
