"""Output of the commands: data goes to stdout, text for the user to stderr with control characters escaped."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_bridge.registry.registry import ToolRegistry


def report(*texts: str) -> None:
    """Write lines for the user to stderr; text that comes from a tool cannot control the terminal."""
    for text in texts:
        print("\n".join(map(escape, text.split("\n"))), file=sys.stderr, flush=True)


def report_problems(problems: Mapping[str, Iterable[str]]) -> None:
    report(*(f"source '{source}': {line}" for source, lines in problems.items() for line in lines))


def write_json(value: Any) -> None:
    from mcp_bridge.wire.values import to_plain

    print(json.dumps(to_plain(value), indent=2, ensure_ascii=False))


def show_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, empty: str = "", styles: Sequence[str] = ()
) -> None:
    """Show a table on stderr, or the text `empty` where there are no rows; `styles` has a style for each row."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns, box=None, header_style="bold")
    table.columns[0].no_wrap = True
    for index, row in enumerate(rows):
        table.add_row(*map(escape, row), style=styles[index] if styles else None)
    Console(stderr=True, highlight=False, markup=False).print(table if rows else empty)


def escape(line: str) -> str:
    """Escape the control characters of a line, including line breaks."""
    if line.isprintable():  # each line of the log passes through here
        return line
    return "".join(
        char if char.isprintable() or char == "\t" else char.encode("unicode_escape").decode() for char in line
    )


def format_count(number: int, noun: str) -> str:
    """Format `1 tool` or `2 tools`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_entry_counts(registry: ToolRegistry) -> str:
    """Format how many tools, resources and prompts are published; tools even where there are none."""
    others = ((len(registry.resources) + len(registry.templates), "resource"), (len(registry.prompts), "prompt"))
    counts = [format_count(count, noun) for count, noun in others if count]
    return ", ".join([format_count(len(registry), "tool"), *counts])
