"""The program of `make demo`: the official client over stdio, then the same tools over HTTP."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

SETTINGS = str(Path(__file__).with_name("demo.yaml"))
BRIDGE = [sys.executable, "-m", "mcp_bridge", "serve", SETTINGS]
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("temperature", {"city": "Lisbon"}),
    ("count", {"to": 20}),
    ("temperature", {"city": "Atlantis"}),
)
console = Console(highlight=False)


def main() -> None:
    """Show three calls, then serve over HTTP until stopped, unless `--once` is given."""
    anyio.run(show)
    if "--once" not in sys.argv:
        console.rule("over HTTP")
        raise SystemExit(serve())


def serve() -> int:
    """Serve over HTTP until stopped. Ctrl-C also reaches the bridge, which shuts down by itself."""
    bridge = subprocess.Popen([*BRIDGE, "--http", "127.0.0.1:8808"])  # noqa: S603 - our own command
    while True:
        try:
            return bridge.wait()
        except KeyboardInterrupt:
            continue


async def show() -> None:
    """Start the bridge as a client does, list its tools, and make three calls."""
    console.rule("over stdio")
    console.print(f"[dim]{' '.join(BRIDGE)}[/]")
    server = StdioServerParameters(command=BRIDGE[0], args=BRIDGE[1:])
    async with Client(stdio_client(server), mode="auto") as client:
        console.print(f"connected, protocol {client.protocol_version}")
        listing = await client.list_tools()
        table = Table("tool", "description", box=None)
        for tool in listing.tools:
            table.add_row(tool.name, (tool.description or "").splitlines()[0])
        console.print(table)
        for name, arguments in CALLS:
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
    console.print(f"[{colour}]{mark:>6}[/] {name}({', '.join(f'{k}={v!r}' for k, v in arguments.items())})")
    console.print(f"       {words}", markup=False)


if __name__ == "__main__":
    main()
