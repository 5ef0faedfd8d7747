"""The program of `make demo`: the official client calls tools over stdio, then the same tools get a page."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

SETTINGS = os.path.relpath(Path(__file__).with_name("demo.yaml"))
PROGRAM = os.path.relpath(Path(sys.executable).with_name("mcp-bridge"))
CALLS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("A result:", "temperature", {"city": "Lisbon"}),
    ("A result after progress:", "count", {"to": 20}),
    ("An error that says what to do:", "temperature", {"city": "Atlantis"}),
)
console = Console(highlight=False)


def main() -> None:
    """Show three calls, then serve with the page until a signal arrives, unless `--once` is given."""
    try:
        anyio.run(show)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    if "--once" not in sys.argv:
        console.rule("in the browser")
        suggest()
        # The server replaces this process, so each signal reaches it, and none can leave it behind.
        os.execv(sys.executable, [sys.executable, "-m", "mcp_bridge", "dev", SETTINGS])  # noqa: S606


def suggest() -> None:
    """Print what to try while the page is open, and afterwards."""
    console.print("On the page, call the tool temperature, then look at Calls. Afterwards, try:")
    console.print(f"  {PROGRAM} call {SETTINGS} temperature city=Oslo")
    console.print(f"  {PROGRAM} install claude-code {SETTINGS} --dry-run")
    console.print("  your own tools: 'Write a tool' in README.md")


async def show() -> None:
    """Start the bridge as a client does, list its tools, and make three calls."""
    console.rule("over stdio")
    console.print(f"[dim]{PROGRAM} serve {SETTINGS}[/]")
    server = StdioServerParameters(command=sys.executable, args=["-m", "mcp_bridge", "serve", SETTINGS])
    async with Client(stdio_client(server), mode="auto") as client:
        console.print(f"connected, protocol {client.protocol_version}")
        listing = await client.list_tools()
        table = Table("tool", "description", box=None)
        for tool in listing.tools:
            table.add_row(tool.name, (tool.description or "").splitlines()[0])
        console.print(table)
        for title, name, arguments in CALLS:
            console.print(title)
            await call(client, name, arguments)


async def call(client: Client, name: str, arguments: dict[str, Any]) -> None:
    """Call a tool, draw its progress, and print its result."""
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(name, total=None)

        async def progress(done: float, total: float | None, message: str | None) -> None:
            bar.update(task, completed=done, total=total, description=message or name)

        result = await client.call_tool(name, arguments, progress_callback=progress)
    words = " ".join(getattr(block, "text", "") for block in result.content)
    mark, colour = ("failed", "red") if result.is_error else ("ok", "green")
    text = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    console.print(f"  {name}({text})")
    console.print(f"  [{colour}]{mark}:[/] {escape(words)}")


if __name__ == "__main__":
    main()
