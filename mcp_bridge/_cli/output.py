"""Writes the output of the commands: results to stdout, and everything else to stderr, with control characters escaped.

Control characters in the text of a tool must not reach the terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._runtime.terminal_text import escape_json, escape_line, escape_text

if TYPE_CHECKING:
    from mcp_bridge._engine.registry import ToolRegistry


REPORT_REDACTOR = Redactor()
"""Replaces the credentials of this command line in the lines for the user."""


def report(*texts: str) -> None:
    """Write lines for the user to stderr."""
    for text in texts:
        print(escape_text(REPORT_REDACTOR.redact_text(text)), file=sys.stderr, flush=True)


def print_lines(*texts: str) -> None:
    """Write lines of a result to stdout."""
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
    """Print a table on stdout, or report the text `empty` if there are no rows.

    Columns without values are left out. On a terminal, `styles` are the styles of the rows, and columns fit its width.
    In a pipe or a file, each row is one line, and nothing is truncated.
    """
    if not rows:
        report(empty)
        return
    used_columns = []
    for index, (_, *cells) in enumerate(zip(columns, *rows, strict=True)):
        if any(cells):
            used_columns.append(index)
    lines: list[list[str]] = []
    for row in (columns, *rows):
        lines.append([escape_line(row[index]) for index in used_columns])
    if not sys.stdout.isatty():
        widths = [max(len(line[index]) for line in lines) for index in range(len(used_columns))]
        for line in lines:
            cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
            print("  ".join(cells).rstrip())
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
