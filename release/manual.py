"""Print the manual page mcp-bridge.1: the help of every command, in the macros of man(7)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from typer.main import get_command

from mcp_bridge._cli.app import app
from mcp_bridge._version import __version__

EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])
HEAD = """.TH MCP\\-BRIDGE 1 "{date}" "mcp\\-bridge {version}" "User Commands"
.SH NAME
mcp\\-bridge \\- serve the tools you already have to any MCP client
.SH SYNOPSIS
.B mcp\\-bridge
[\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fIARGS\\fR]...
.SH DESCRIPTION
Each command prints its own help with \\fB\\-\\-help\\fR."""
FOOT = """.SH EXIT STATUS
.TP
.B 0
success
.TP
.B 1
a tool call failed, \\fBvalidate\\fR or \\fBdoctor\\fR reported a problem, or no source could be loaded
.TP
.B 2
invalid options or settings
.TP
.B 3
no tool or decision has that name
.TP
.B 130
stopped by Ctrl\\-C (not \\fBserve\\fR, which ends with 0)"""


def escape(text: str) -> str:
    """Escape text for roff: backslashes, hyphens, and a control character at the start of a line."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in escaped.splitlines())


class ManualFormatter:
    """Receives the sections of a command's help, as typer's own formatter does, and writes them in roff."""

    def __init__(self) -> None:
        """Start with no lines."""
        self.lines: list[str] = []

    @contextmanager
    def section(self, title: str) -> Iterator[None]:
        """Write the title of a section."""
        self.lines.append(f".PP\n.B {escape(title)}:")
        yield

    def write_dl(self, rows: Sequence[tuple[str, str]], *_: int, **__: int) -> None:
        """Write names and their meanings."""
        for name, text in rows:
            self.lines.append(f".TP\n.B {escape(name)}\n{escape(text)}")


def list_commands(command: Any, context: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every command below a group with its context, in the order of the help."""
    for name, subcommand in getattr(command, "commands", {}).items():
        if not subcommand.hidden:
            subcontext = typer.Context(subcommand, info_name=name, parent=context)
            yield subcommand, subcontext
            yield from list_commands(subcommand, subcontext)


def format_manual() -> str:
    """Return the text of the manual page."""
    command = get_command(app)
    context = typer.Context(command, info_name="mcp-bridge", **command.context_settings)
    formatter = ManualFormatter()
    date = time.strftime("%Y-%m-%d", time.gmtime(EPOCH))
    formatter.lines.append(HEAD.format(date=date, version=escape(__version__)))
    command.format_options(context, formatter)
    formatter.lines.append(".SH COMMANDS")
    for subcommand, subcontext in list_commands(command, context):
        usage = " ".join(subcommand.collect_usage_pieces(subcontext))
        formatter.lines.append(f".SS {escape(subcontext.command_path)} {escape(usage)}")
        formatter.lines.append(escape(subcommand.help or ""))
        subcommand.format_options(subcontext, formatter)
    return "\n".join([*formatter.lines, FOOT]) + "\n"


if __name__ == "__main__":
    print(format_manual(), end="")
