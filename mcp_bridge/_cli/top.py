"""`top`: shows the calls of a running server in the terminal, live, through the operator API."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import anyio

from mcp_bridge._cli import logs
from mcp_bridge._cli.options import AddressOptions, TopOptions
from mcp_bridge._cli.output import format_count, print_lines, report
from mcp_bridge._cli.serve import DEFAULT_ADDRESS
from mcp_bridge._cli.server_address import find_address, read_token
from mcp_bridge._cli.target import find_file, is_settings
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._runtime.platform import system
from mcp_bridge._runtime.terminal_text import escape_line
from mcp_bridge._web.client import OperatorClient, OperatorError, OperatorEvent
from mcp_bridge._web.operator_socket import list_sockets

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from mcp_bridge._settings import Settings

MAX_CALLS = 500
"""The maximum number of calls that are kept."""
REFRESH_INTERVAL = 0.5
"""The minimum number of seconds between two updates of the screen, because a terminal line may be slow."""
_RUNNING = ("running", "asking")
_STYLES = {"running": "yellow", "asking": "yellow", "error": "red", "cancelled": "dim"}
_COLUMNS = {"time": 8, "state": 9, "ms": 8, "tool": 18, "client": 10}
"""The widths of the columns. The last column, with progress or arguments, gets the rest of the line."""


def show_calls(options: TopOptions) -> None:
    """Show the calls until `q` or Ctrl-C. Raises ConfigError and OperatorError."""
    logs.configure_logging("error")
    client = _find_server(options)
    with suppress(KeyboardInterrupt):
        anyio.run(_show_screen if sys.stdout.isatty() and sys.stdin.isatty() else _print_calls, client)


def _find_server(options: TopOptions) -> OperatorClient:
    """Return a client of the server at a URL, or of the server that serves a file.

    The settings have the port of this server. Without a page, it may have a private socket.
    """
    address = find_address(options.target, AddressOptions(token_env=options.token_env))
    if address is not None:
        url = urlsplit(address.url or "")
        # `dev` prints the URL of its page with the token.
        token = read_token(options.token_env) or parse_qs(url.fragment).get("token", [None])[0]
        base = f"{url.scheme}://{url.netloc}{url.path.rstrip('/').removesuffix('/mcp')}"
        return OperatorClient(base, token)
    path = find_file(options.target)
    host, port = DEFAULT_ADDRESS
    token = None
    if is_settings(path):
        from mcp_bridge._settings import load

        settings = load(path, os.environ)
        http = settings.http
        if http.page is None:
            sockets = _list_private_sockets(settings)
            if sockets:
                return OperatorClient(socket=sockets[-1])
        host, port = http.host, http.port
        if http.token_env:
            token = os.environ.get(http.token_env)
    if not port:
        hint = "Pass the URL that `serve` has reported"
        raise ConfigError("the port is 0, so the server chooses any free one", where="http.port", hint=hint)
    host = f"[{host}]" if ":" in host else host
    return OperatorClient(f"http://{host}:{port}", token)


def _list_private_sockets(settings: Settings) -> Sequence[Path]:
    """Return the private sockets of the running servers with these settings, the latest last. Raises ConfigError."""
    if settings.approvals.terminal is None:
        return ()
    from mcp_bridge._policies.approvals.policy import get_socket_folder

    try:
        return list_sockets(get_socket_folder(settings.path))
    except PermissionError as error:
        raise ConfigError(str(error), where="approvals.terminal") from error


class CallTable:
    """The state of a server: its latest calls, its clients and sources, and the problem of the connection, if any."""

    def __init__(self) -> None:
        self.calls: OrderedDict[int, Mapping[str, Any]] = OrderedDict()
        self.clients: dict[str, Mapping[str, Any]] = {}
        self.server: Mapping[str, Any] = {}
        self.sources: dict[str, Mapping[str, Any]] = {}
        self.questions: set[int] = set()
        self.problem = "connecting"

    def replace_state(self, state: Mapping[str, Any]) -> None:
        """Replace the whole state by that of the server."""
        self.server = state["server"]
        self.calls = OrderedDict((call["id"], call) for call in reversed(state["calls"]))
        self.clients = {client["id"]: client for client in state["clients"]}
        self.sources = {source["name"]: source for source in state["sources"]}
        self.questions = {question["id"] for question in state["questions"]}

    def apply_event(self, event: OperatorEvent) -> None:
        """Apply one change of the state."""
        data = event.data
        match event.name:
            case "call":
                self.calls[data["id"]] = data
                while len(self.calls) > MAX_CALLS:
                    self.calls.popitem(last=False)
            case "client" if data.get("is_connected") is False:
                self.clients.pop(data["id"], None)
            case "client":
                self.clients[data["id"]] = data
            case "source":
                self.sources[data["name"]] = data
            case "question":
                self.questions.add(data["id"])
            case "answered":
                self.questions.discard(data["id"])
            case "lost":
                self.problem = f"disconnected: {data['problem']}"
            case "connected":
                self.problem = ""

    @property
    def is_running(self) -> bool:
        """Whether a call runs."""
        return any(call["state"] in _RUNNING for call in self.calls.values())

    def list_rows(self, count: int) -> Iterator[tuple[str, list[str]]]:
        """Yield the state and the cells of the latest calls, the latest first."""
        for call in itertools.islice(reversed(self.calls.values()), count):
            yield call["state"], self.format_cells(call)

    def summarize(self) -> str:
        """Return the first line of the screen."""
        running = sum(call["state"] in _RUNNING for call in self.calls.values())
        texts = [
            self.server.get("title") or self.server.get("name", ""),
            format_count(len(self.clients), "client"),
            f"{running} running",
        ]
        broken = [name for name, source in self.sources.items() if source["state"] not in ("ready", "starting")]
        if broken:
            texts.append(f"not ready: {', '.join(broken)}")
        if self.questions:
            texts.append(format_count(len(self.questions), "question"))
        return escape_line("  ".join(filter(None, [*texts, self.problem])))

    def format_cells(self, call: Mapping[str, Any]) -> list[str]:
        """Return the cells of a call: time, state, milliseconds, tool, client, and progress or arguments."""
        duration = call["duration_ms"]
        if duration is None:
            duration = max(0.0, time.time() - call["started"]) * 1000
        clock = time.strftime("%H:%M:%S", time.localtime(call["started"]))
        state = call["state"]
        details = json.dumps(call["arguments"], ensure_ascii=False)
        if state == "error":
            state = call["code"] or state
        progress = call["progress"]
        if state == "running" and progress is not None:
            amount = f"{progress['progress']:g}"
            if progress["total"] is not None:
                amount += f"/{progress['total']:g}"
            details = f"{amount} {progress['message'] or ''}".strip()
        cells = [clock, state, f"{duration:.1f}", call["tool"], call["client_name"], details]
        return [escape_line(str(cell)) for cell in cells]


def _has_ended(call: Mapping[str, Any]) -> bool:
    return bool(call["state"] not in _RUNNING)


async def _follow(client: OperatorClient, table: CallTable, report_change: Callable[[OperatorEvent], None]) -> None:
    """Keep the table up to date, and call `report_change` after each change. Raises OperatorError."""
    table.replace_state(await client.read_state())
    async for event in client.follow_events(is_observer=True):
        if event.name in ("reset", "dropped"):
            table.replace_state(await client.read_state())
        else:
            table.apply_event(event)
        report_change(event)


async def _print_calls(client: OperatorClient) -> None:
    """Print a line for each call at its end, for pipes and files."""
    table = CallTable()
    table.replace_state(await client.read_state())
    printed_calls = OrderedDict[int, None].fromkeys(number for number, call in table.calls.items() if _has_ended(call))

    def print_new(event: OperatorEvent) -> None:
        if event.name == "lost":
            report(f"mcp-bridge: {table.problem}")
        for number, call in table.calls.items():
            if _has_ended(call) and number not in printed_calls:
                printed_calls[number] = None
                print_lines("  ".join(table.format_cells(call)))
        while len(printed_calls) > 2 * MAX_CALLS:
            printed_calls.popitem(last=False)
        sys.stdout.flush()

    with suppress(BrokenPipeError):
        await _follow(client, table, print_new)


async def _show_screen(client: OperatorClient) -> None:
    """Show the table until `q` is typed."""
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False, markup=False)
    table = CallTable()
    changed = asyncio.Event()
    stop = asyncio.Event()
    errors: list[OperatorError] = []

    async def follow() -> None:
        try:
            await _follow(client, table, lambda _: changed.set())
        except OperatorError as error:
            errors.append(error)
            stop.set()

    with _read_keys(stop), Live(console=console, screen=True, auto_refresh=False) as live:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            tasks.start_soon(_refresh, live.update, console, table, changed)
            await stop.wait()
            tasks.cancel_scope.cancel()
    if errors:
        raise errors[0]


async def _refresh(update: Callable[..., None], console: Console, table: CallTable, changed: asyncio.Event) -> None:
    """Draw the table after each change, and regularly while a call runs, because its duration changes."""
    while True:
        changed.clear()
        update(_render_table(console, table), refresh=True)
        await anyio.sleep(REFRESH_INTERVAL)
        if not table.is_running:
            await changed.wait()


def _render_table(console: Console, table: CallTable) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, padding=(0, 1, 0, 0), expand=True, header_style="bold", pad_edge=False)
    for name, width in _COLUMNS.items():
        justify: Any = "right" if name == "ms" else "left"
        grid.add_column(name, width=width, no_wrap=True, overflow="ellipsis", justify=justify)
    grid.add_column("progress or arguments", ratio=1, no_wrap=True, overflow="ellipsis")
    for state, cells in table.list_rows(max(1, console.height - 4)):
        grid.add_row(*map(Text, cells), style=_STYLES.get(state))
    head = Text(table.summarize(), style="reverse", no_wrap=True, overflow="ellipsis")
    return Group(head, grid, Text("q: quit", style="dim"))


@contextmanager
def _read_keys(stop: asyncio.Event) -> Iterator[None]:
    """Set `stop` when the user types `q` inside the block."""

    def handle_keys(keys: bytes) -> None:
        if not keys or b"q" in keys.lower():
            stop.set()

    with system.watch_keys(handle_keys):
        yield
