"""What is compared: every case of a run, and the goals that their ratios must meet."""

import itertools
from dataclasses import dataclass, replace

from benchmarks.process import Command
from benchmarks.wire import Era

TOOLS, MANY_TOOLS = 10, 1000
SERVERS = ("bridge", "sdk", "fastmcp")
TRANSPORTS = ("stdio", "http")
KINDS = ("calls", "start")
HOSTS = ("native", "core")
HOOKS = (0, 1, 5)
FILES = {
    "bridge": "benchmarks/servers/tools.py",
    "isolated": "benchmarks/servers/isolated.yaml",
    **dict.fromkeys(HOSTS, "benchmarks/servers/hooks.yaml"),
}
"""What the bridge serves: tools in its own process, in workers, or under hooks of Amplifier modules on either host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One server in one situation. `kind` says what is measured: calls, or the start."""

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
    def event_loop(self):
        """The loop that the server runs on: asyncio's by default, uvloop where a rival's web server uses it."""
        return "uvloop" if self.transport == "http" and self.server not in FILES else "asyncio"

    @property
    def words(self):
        return (self.kind, self.server, self.transport, str(self.era), str(self.tools), f"{self.hooks or 0}-hooks")

    def command(self, *, json_replies=False):
        """How the server of this case is started."""
        http = self.transport == "http"
        env = {} if self.hooks is None else {"BENCH_HOST": self.server, "BENCH_HOOKS": str(self.hooks)}
        if self.server in FILES:
            address = ("--http", "127.0.0.1:0") if http else ()
            arguments = ("-m", "mcp_bridge", "serve", FILES[self.server], *address)
        else:
            port = ("--http", "PORT") if http else ()
            json = ("--json-response",) if http and json_replies and self.server == "sdk" else ()
            arguments = ("-m", f"benchmarks.servers.{self.server}_server", *port, *json)
        return Command(arguments=arguments, http=http, names_its_port=self.server in FILES, tools=self.tools, env=env)


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """`case` may cost at most `limit` times `base` in server CPU per call (less, when `strict`)."""

    name: str
    case: Case
    base: Case
    limit: float
    strict: bool = False

    def figures(self, own, base):
        """What is judged, round by round: how many times the cost of `base`, which was measured seconds apart."""
        return [one.cost / other.cost for one, other in zip(own, base, strict=False)]

    def met(self, figure):
        return figure < self.limit if self.strict else figure <= self.limit

    @property
    def condition(self):
        return f"{'<' if self.strict else '<='} {self.limit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookGoal(Goal):
    """One hook of those that `case` has more than `base` may cost at most `limit` microseconds of CPU per call."""

    def figures(self, own, base):
        """Round by round, the microseconds of one hook."""
        more = self.case.hooks - self.base.hooks
        return [(one.cost - other.cost) * 1e6 / more for one, other in zip(own, base, strict=False)]

    @property
    def condition(self):
        return f"<= {self.limit} us"


def all_cases():
    """Every case, those that are compared with each other side by side."""
    situations = itertools.product(TRANSPORTS, Era)
    calls = [Case(server=server, transport=transport, era=era) for transport, era in situations for server in SERVERS]
    many = [Case(server="bridge", transport=transport, tools=MANY_TOOLS) for transport in TRANSPORTS]
    starts = [Case(kind="start", server=server, transport="stdio") for server in SERVERS]
    start_many = Case(kind="start", server="bridge", transport="stdio", tools=MANY_TOOLS)
    isolated = [Case(kind=kind, server="isolated", transport="stdio") for kind in KINDS]
    return [*calls, *many, isolated[0], *hooked(), *starts, start_many, isolated[1]]


def hooked():
    """Calls under hooks, on each host."""
    return [Case(server=host, transport="stdio", hooks=hooks) for host in HOSTS for hooks in HOOKS]


def chosen(only):
    """The cases that match `only`: words of one kind are alternatives, words of two kinds both count."""
    cases = all_cases()
    for choices in zip(*(case.words for case in cases), strict=True):
        if wanted := set(only) & set(choices):
            cases = [case for case in cases if wanted & set(case.words)]
    return cases


def known_words():
    """Every word that `--only` understands."""
    return sorted({word for case in all_cases() for word in case.words})


def base_of(case):
    """The case that `case` is set in relation to: the SDK's server in the same situation."""
    return replace(case, server="sdk", tools=TOOLS, hooks=None)


def all_goals():
    """What the bridge has to reach."""
    for transport, era in itertools.product(TRANSPORTS, Era):
        bridge = Case(server="bridge", transport=transport, era=era)
        stdio = transport == "stdio"
        yield Goal(
            name=f"{transport} {era}: bridge / sdk",
            case=bridge,
            base=base_of(bridge),
            limit=1.0 if stdio else 1.15,
            strict=stdio,
        )
    for transport in TRANSPORTS:
        few = Case(server="bridge", transport=transport)
        many = replace(few, tools=MANY_TOOLS)
        name = f"{transport}: bridge with {MANY_TOOLS:,} tools / with {TOOLS}"
        yield Goal(name=name, case=many, base=few, limit=1.3)
    none, one, most = (Case(server="native", transport="stdio", hooks=hooks) for hooks in HOOKS)
    yield HookGoal(name="stdio: a hook of five on native", case=most, base=none, limit=10.0)
    yield HookGoal(name="stdio: one more hook on native", case=most, base=one, limit=10.0)
