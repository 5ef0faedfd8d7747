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
    """Write lines for the user to stderr. Text of a tool cannot control the terminal."""
    for text in texts:
        print(escape_text(text), file=sys.stderr, flush=True)


def print_lines(*texts: str) -> None:
    """Write lines of a result to stdout. Text of a tool cannot control the terminal."""
    for text in texts:
        print(escape_text(text))


def format_problems(problems: Mapping[str, Iterable[str]]) -> list[str]:
    texts: list[str] = []
    for source, lines in problems.items():
        texts += [f"source '{source}': {line}" for line in lines]
    return texts


def report_problems(problems: Mapping[str, Iterable[str]]) -> None:
    report(*format_problems(problems))


def write_json(value: Any) -> None:
    from mcp_bridge._protocol.wire.values import to_plain

    print(format_json(to_plain(value), indent=2))


def format_json(value: Any, *, indent: int | None = None) -> str:
    """Format a JSON value, with invisible characters escaped."""
    return escape_json(json.dumps(value, indent=indent, ensure_ascii=False))


def show_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, empty: str = "", styles: Sequence[str] = ()
) -> None:
    """Print a table on stdout, or report the text `empty` if there are no rows; `styles` has a style for each row.

    Columns without values are left out. A terminal gets colours and columns of its width; a pipe or a file gets every
    character, one line for each row.
    """
    if not rows:
        report(empty)
        return
    lines: list[list[str]] = [[] for _ in range(len(rows) + 1)]
    for title, *cells in zip(columns, *rows, strict=True):
        if any(cells):
            for line, cell in zip(lines, [title, *cells], strict=True):
                line.append(escape_line(cell))
    if not sys.stdout.isatty():
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        for line in lines:
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for column in lines[0]:
        table.add_column(column, overflow="fold")
    for index, line in enumerate(lines[1:]):
        table.add_row(*line, style=styles[index] if styles else None)
    Console(highlight=False, markup=False).print(table)


def format_count(number: int, noun: str) -> str:
    """Format `1 tool` or `2 tools`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_entry_counts(registry: ToolRegistry) -> str:
    """Format the number of tools, and those of resources and prompts if there are any."""
    counts = [format_count(len(registry), "tool")]
    if registry.resources or registry.templates:
        counts.append(format_count(len(registry.resources) + len(registry.templates), "resource"))
    if registry.prompts:
        counts.append(format_count(len(registry.prompts), "prompt"))
    return ", ".join(counts)
