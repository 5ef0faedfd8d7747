"""The cases of a run: which servers are compared, in which situations."""

import itertools
import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.process import Command
from benchmarks.wire import Era
from benchmarks.workloads import WORKLOADS

TOOLS, MANY_TOOLS, MOST_TOOLS = 10, 1000, 10_000
SERVERS = ("bridge", "sdk", "mcpserver", "fastmcp")
"""The servers that have every workload. The floor has only `echo`."""
TRANSPORTS = ("stdio", "http")
IN_FLIGHT = (1, 8, 32)
HOSTS = ("native", "core")
HOOKS = (0, 1, 5)
FILES = {
    "bridge": "tools.py",
    "bridge-uvloop": "uvloop.yaml",
    "bridge-typed": "typed_tools.py",
    "governed": "governed.yaml",
    "isolated": "isolated.yaml",
    "native": "hooks.yaml",
    "core": "hooks.yaml",
    "audited": "audited.yaml",
    "page": "page.yaml",
}
"""What the bridge serves, by the name of the case's server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One server in one situation. `kind` is what is measured: "calls", "list", "start" or "streams"."""

    kind: str = "calls"
    server: str
    transport: str = "stdio"
    era: Era = Era.MODERN
    workload: str = "echo"
    in_flight: int = 32
    tools: int = TOOLS
    hooks: int | None = None

    def __str__(self):
        words = [self.server, self.transport, str(self.era)]
        if self.kind == "calls":
            words += [self.workload, str(self.in_flight)]
        text = " ".join(words)
        if self.hooks is not None:
            return f"{text}, {self.hooks} hooks"
        if self.tools != TOOLS:
            return f"{text}, {self.tools} tools"
        return text

    @property
    def is_bridge(self):
        return self.server in FILES

    @property
    def has_examples(self):
        """Whether the server offers the examples in addition to `echo`."""
        return self.workload != "echo"

    @property
    def event_loop(self):
        """The event loop of the server: asyncio's own, except where it is set or where others serve HTTP."""
        if self.server == "bridge-uvloop" or (self.transport == "http" and not self.is_bridge):
            return "uvloop"
        return "asyncio"

    @property
    def words(self):
        """The words by which `--only` selects the case, one for each dimension."""
        return (
            self.kind,
            self.server,
            self.transport,
            str(self.era),
            self.workload,
            f"{self.in_flight}-in-flight",
            str(self.tools),
            f"{self.hooks or 0}-hooks",
        )

    def make_command(self, *, json_replies=False):
        """Return how the server is started. Cases with the same command can share a server."""
        http = self.transport == "http"
        if self.is_bridge:
            file = "examples.yaml" if self.has_examples else FILES[self.server]
            arguments = ["-m", "mcp_bridge", "serve", f"benchmarks/servers/{file}"]
        elif self.server == "floor":
            arguments = ["-m", f"benchmarks.servers.floor_{self.transport}"]
        else:
            arguments = ["-m", f"benchmarks.servers.{self.server}_server"]
        if http:
            arguments += ["--http", "127.0.0.1:0" if self.is_bridge else "PORT"]
            if json_replies and self.server == "sdk":
                arguments.append("--json-response")
        return Command(arguments=tuple(arguments), http=http, names_its_port=self.is_bridge, env=self._make_env())

    def _make_env(self):
        env = {"BENCH_TOOLS": str(self.tools)}
        if self.has_examples:
            env["BENCH_EXAMPLES"] = "1"
        if self.hooks is not None:
            env |= {"BENCH_HOST": self.server, "BENCH_HOOKS": str(self.hooks)}
        if self.server == "audited":
            env["BENCH_TRAIL"] = str(Path(tempfile.gettempdir(), f"mcp-bridge-bench-{os.getpid()}.sqlite3"))
        return tuple(env.items())


def combine(**dimensions):
    """Return a case for each combination of the values."""
    return [Case(**dict(zip(dimensions, values, strict=True))) for values in itertools.product(*dimensions.values())]


DEFAULT_CASES = [
    *combine(server=("floor", *SERVERS), transport=TRANSPORTS, era=Era),
    *combine(server=("floor", *SERVERS), in_flight=(1, 8)),
    *combine(server=("floor", *SERVERS), transport=("http",), in_flight=(1,)),
    *combine(server=SERVERS, workload=tuple(WORKLOADS)),
    *combine(server=SERVERS, transport=("http",), workload=("add", "report")),
    *combine(server=SERVERS, workload=("add", "add-async"), in_flight=(1,)),
    *combine(server=("bridge",), transport=TRANSPORTS, tools=(MANY_TOOLS, MOST_TOOLS)),
    *combine(server=("bridge-uvloop",), transport=("http",), era=Era),
    *combine(server=("governed", "audited", "bridge-typed", "isolated")),
    *combine(server=("page",), transport=("http",)),
    *combine(server=HOSTS, hooks=HOOKS),
    *combine(kind=("list",), server=("bridge", "sdk"), transport=TRANSPORTS, tools=(MOST_TOOLS,)),
    *combine(kind=("start",), server=("floor", *SERVERS, "bridge-typed", "isolated")),
    *combine(kind=("start",), server=("bridge",), tools=(MANY_TOOLS,)),
    *combine(kind=("streams",), server=("bridge",), transport=("http",)),
]
"""The cases of a run without options, in about 15 minutes."""


def list_cases(*, everything=False):
    """Return the default cases or, with `everything`, all workloads and calls in flight too.

    Cases that are compared are neighbours: they differ by server, number of tools or hooks, then by workload.
    """
    cases = list(DEFAULT_CASES)
    if everything:
        cases += combine(server=SERVERS, transport=TRANSPORTS, era=Era, workload=tuple(WORKLOADS), in_flight=IN_FLIGHT)
        calls = [case for case in DEFAULT_CASES if case.kind == "calls"]
        cases += [replace(case, in_flight=in_flight) for case in calls for in_flight in IN_FLIGHT]
    workloads = list(WORKLOADS)

    def position(case):
        return case.kind, case.transport, case.era, case.in_flight, workloads.index(case.workload)

    return sorted(dict.fromkeys(cases), key=position)


def list_words():
    """Return the words for `--only`."""
    words = {word for case in list_cases(everything=True) for word in case.words}
    return ["everything", *sorted(words)]


def select_cases(words):
    """Return the cases that match the words: alternatives within a dimension, all of several dimensions.

    The word "everything" selects from all cases instead of the default ones.
    """
    cases = list_cases(everything="everything" in words)
    for values in zip(*(case.words for case in list_cases(everything=True)), strict=True):
        choices = set(words) & set(values)
        if choices:
            cases = [case for case in cases if choices & set(case.words)]
    return cases


def get_base(case, server="sdk"):
    """Return the case to compare with: that of the SDK's or another server in the same situation."""
    tools = case.tools if case.kind == "list" else TOOLS
    return replace(case, server=server, tools=tools, hooks=None)
