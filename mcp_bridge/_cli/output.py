"""Output of the commands: results go to stdout, progress and problems to stderr, with control characters escaped."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mcp_bridge._runtime.terminal_text import escape_json, escape_line, escape_text

if TYPE_CHECKING:
    from mcp_bridge._engine.registry import ToolRegistry


def report(*texts: str) -> None:
    """Write lines for the user to stderr; text that comes from a tool cannot control the terminal."""
    for text in texts:
        print(escape_text(text), file=sys.stderr, flush=True)


def print_lines(*texts: str) -> None:
    """Write lines of a result to stdout; text that comes from a tool cannot control the terminal."""
    for text in texts:
        print(escape_text(text))


def format_problems(problems: Mapping[str, Iterable[str]]) -> list[str]:
    return [f"source '{source}': {line}" for source, lines in problems.items() for line in lines]


def write_json(value: Any) -> None:
    from mcp_bridge._protocol.wire.values import to_plain

    print(format_json(to_plain(value), indent=2))


def format_json(value: Any, *, indent: int | None = None) -> str:
    """Format a JSON value, in whose texts invisible characters are escaped."""
    return escape_json(json.dumps(value, indent=indent, ensure_ascii=False))


def show_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, empty: str = "", styles: Sequence[str] = ()
) -> None:
    """Print a table on stdout, or report the text `empty` if there are no rows; `styles` has a style for each row.

    Columns without values are left out. A terminal gets colours and columns of its width; a pipe or a file gets every
    character, one line for each row.
    """
    used = [index for index, cells in enumerate(zip(*rows, strict=True)) if any(cells)]
    columns, rows = [columns[index] for index in used], [[row[index] for index in used] for row in rows]
    if not rows:
        report(empty)
    elif sys.stdout.isatty():
        _show_rich_table(columns, rows, styles)
    else:
        lines = [[*map(escape_line, row)] for row in (columns, *rows)]
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        for line in lines:
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _show_rich_table(columns: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for index, row in enumerate(rows):
        table.add_row(*map(escape_line, row), style=styles[index] if styles else None)
    Console(highlight=False, markup=False).print(table)


def report_problems(problems: Mapping[str, Iterable[str]]) -> None:
    report(*format_problems(problems))


def format_count(number: int, noun: str) -> str:
    """Format `1 tool` or `2 tools`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_entry_counts(registry: ToolRegistry) -> str:
    """Format how many tools, resources and prompts are published; tools even where there are none."""
    others = ((len(registry.resources) + len(registry.templates), "resource"), (len(registry.prompts), "prompt"))
    counts = [format_count(count, noun) for count, noun in others if count]
    return ", ".join([format_count(len(registry), "tool"), *counts])
