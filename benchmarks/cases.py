"""What is compared: every case of a run."""

import itertools
import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.process import Command
from benchmarks.wire import Era

TOOLS, MANY_TOOLS, MOST_TOOLS = 10, 1000, 10_000
SERVERS = ("bridge", "floor", "sdk", "fastmcp")
TRANSPORTS = ("stdio", "http")
HOSTS = ("native", "core")
HOOKS = (0, 1, 5)
FILES = {
    "bridge": "benchmarks/servers/tools.py",
    "bridge-uvloop": "benchmarks/servers/uvloop.yaml",
    "bridge-typed": "benchmarks/servers/typed_tools.py",
    "governed": "benchmarks/servers/governed.yaml",
    "isolated": "benchmarks/servers/isolated.yaml",
    **dict.fromkeys(HOSTS, "benchmarks/servers/hooks.yaml"),
    "audited": "benchmarks/servers/audited.yaml",
    "page": "benchmarks/servers/page.yaml",
}
"""What the bridge serves, by the name of the case's server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One server in one situation. `kind` is what is measured: "calls", "list", "start" or "streams"."""

    kind: str = "calls"
    server: str
    transport: str
    era: Era = Era.MODERN
    tools: int = TOOLS
    hooks: int | None = None

    def __str__(self):
        what = f"{self.tools} tools" if self.hooks is None else f"{self.hooks} hooks"
        return f"{self.server} {self.transport} {self.era} {what}"

    @property
    def is_bridge(self):
        return self.server in FILES

    @property
    def event_loop(self):
        """The event loop of the server: asyncio's own, except where it is set or where a rival serves HTTP."""
        is_rival_on_http = self.transport == "http" and not self.is_bridge
        return "uvloop" if is_rival_on_http or self.server == "bridge-uvloop" else "asyncio"

    @property
    def words(self):
        return (self.kind, self.server, self.transport, str(self.era), str(self.tools), f"{self.hooks or 0}-hooks")

    def command(self, *, json_replies=False):
        """Return how the server of this case is started."""
        http = self.transport == "http"
        env = {} if self.hooks is None else {"BENCH_HOST": self.server, "BENCH_HOOKS": str(self.hooks)}
        if self.server == "audited":
            env["BENCH_TRAIL"] = str(Path(tempfile.gettempdir(), f"mcp-bridge-bench-{os.getpid()}.sqlite3"))
        if self.is_bridge:
            address = ("--http", "127.0.0.1:0") if http else ()
            arguments = ("-m", "mcp_bridge", "serve", FILES[self.server], *address)
        elif self.server == "floor":
            arguments = ("-m", f"benchmarks.servers.floor_{self.transport}", *(("PORT",) if http else ()))
        else:
            port = ("--http", "PORT") if http else ()
            json = ("--json-response",) if http and json_replies and self.server == "sdk" else ()
            arguments = ("-m", f"benchmarks.servers.{self.server}_server", *port, *json)
        return Command(arguments=arguments, http=http, names_its_port=self.is_bridge, tools=self.tools, env=env)


def all_cases():
    """Return every case. Those that are compared are measured one after another."""
    return [*call_cases(), *list_cases(), *start_cases(), Case(kind="streams", server="bridge", transport="http")]


def call_cases():
    """Yield the cases of calls: each server, many tools, typed tools, policies, workers, the page, hooks."""
    for transport, era in itertools.product(TRANSPORTS, Era):
        case = Case(server="bridge", transport=transport, era=era)
        if era is Era.MODERN:
            yield from (replace(case, tools=tools) for tools in (MOST_TOOLS, MANY_TOOLS))
        yield case
        for server in (*(("bridge-uvloop",) if transport == "http" else ()), *SERVERS[1:]):
            yield replace(case, server=server)
    for server in ("governed", "audited", "bridge-typed", "isolated"):
        yield Case(server=server, transport="stdio")
    yield Case(server="page", transport="http")
    for host, hooks in itertools.product(HOSTS, HOOKS):
        yield Case(server=host, transport="stdio", hooks=hooks)


def list_cases():
    """Yield the cases of the whole tools/list."""
    for transport, server in itertools.product(TRANSPORTS, ("bridge", "sdk")):
        yield Case(kind="list", server=server, transport=transport, tools=MOST_TOOLS)


def start_cases():
    """Yield the cases of starts."""
    for server in ("bridge", "bridge-typed", "isolated", *SERVERS[1:]):
        yield Case(kind="start", server=server, transport="stdio")
    yield Case(kind="start", server="bridge", transport="stdio", tools=MANY_TOOLS)


def chosen(only):
    """Return the cases that match `only`: words of one kind are alternatives, words of two kinds must both match."""
    cases = all_cases()
    for choices in zip(*(case.words for case in cases), strict=True):
        if wanted := set(only) & set(choices):
            cases = [case for case in cases if wanted & set(case.words)]
    return cases


def known_words():
    """Return every word that `--only` understands."""
    return sorted({word for case in all_cases() for word in case.words})


def base_of(case, server="sdk"):
    """Return the case that `case` is compared with: the SDK's or another server in the same situation."""
    tools = case.tools if case.kind == "list" else TOOLS
    return replace(case, server=server, tools=tools, hooks=None)
