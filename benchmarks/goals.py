"""The goals for the figures of a run."""

from dataclasses import dataclass, replace
from fractions import Fraction

from benchmarks.cases import HOOKS, MOST_TOOLS, TOOLS, TRANSPORTS, Case, get_base
from benchmarks.wire import Era


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """`case` may have at most `limit` times the `field` of `base`: "cost" or "memory"."""

    name: str
    case: Case
    base: Case
    limit: Fraction | float
    field: str = "cost"

    def list_figures(self, samples, base_samples):
        """Return the figure of each round. Both samples of a round were measured seconds apart."""
        pairs = zip(samples, base_samples, strict=False)
        return [getattr(sample, self.field) / getattr(base, self.field) for sample, base in pairs]

    def format(self, figure):
        """Return `figure` in the unit of the limit."""
        if isinstance(self.limit, Fraction) and figure < 1:
            return f"1/{1 / figure:.1f}"
        return f"{figure:.2f}"

    @property
    def condition(self):
        return f"<= {self.limit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookGoal(Goal):
    """Each additional hook of `case`, compared with `base`, may cost at most `limit` microseconds of CPU per call."""

    def list_figures(self, samples, base_samples):
        hooks = self.case.hooks - self.base.hooks
        pairs = zip(samples, base_samples, strict=False)
        return [(sample.cost - base.cost) * 1e6 / hooks for sample, base in pairs]

    @property
    def condition(self):
        return f"<= {self.limit} us"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamGoal(Goal):
    """Each idle stream of `case` may take at most `limit` KiB. It is compared with nothing."""

    def list_figures(self, samples, base_samples):
        return [sample.memory / 1024 for sample in samples]

    @property
    def condition(self):
        return f"<= {self.limit} KiB"


def list_goals():
    """Yield every goal."""
    yield from list_stdio_goals()
    yield from list_function_goals()
    yield from list_http_goals()
    yield from list_size_goals()
    yield from list_start_goals()
    streams = Case(kind="streams", server="bridge", transport="http")
    yield StreamGoal(name="http: an idle listen stream", case=streams, base=streams, limit=20)
    without, single, most = (Case(server="native", hooks=hooks) for hooks in HOOKS)
    yield HookGoal(name="stdio: a hook of five", case=most, base=without, limit=10)
    yield HookGoal(name="stdio: one more hook", case=most, base=single, limit=10)


def compare(title, case, limit, server="sdk"):
    """Return the goal for `case`, compared with another server in the same situation."""
    return Goal(name=f"{title}: {case.server} / {server}", case=case, base=get_base(case, server), limit=limit)


def list_stdio_goals():
    """Yield the goals of calls over stdio, with the default settings."""
    for era in Era:
        case = Case(server="bridge", era=era)
        yield compare(f"stdio {era}", case, Fraction(1, 25))
        yield compare(f"stdio {era}", case, 5, "floor")
    yield compare("stdio, under policies", Case(server="governed"), 3, "bridge")
    yield compare("stdio, under policies and audit", Case(server="audited"), 3, "bridge")


def list_function_goals():
    """Yield the goals of typed functions over stdio. Synchronous functions run in threads."""
    function = Case(server="bridge", workload="add")
    yield compare("stdio, a synchronous function", function, Fraction(1, 25), "fastmcp")
    for in_flight, limit in ((32, 1.5), (1, 2)):
        case = replace(function, in_flight=in_flight)
        name = f"stdio, {in_flight} in flight: a synchronous function / the same as async"
        yield Goal(name=name, case=case, base=replace(case, workload="add-async"), limit=limit)


def list_http_goals():
    """Yield the goals of calls over HTTP, on uvloop as the SDK's server and on the default loop.

    In the handshake era, both sides keep sessions and respond with events. Only the bridge stores the events, so that
    streams can be resumed, as is its default.
    """
    modern, handshake = (Case(server="bridge-uvloop", transport="http", era=era) for era in Era)
    yield compare("http modern", modern, Fraction(1, 6))
    yield compare("http modern", modern, 2, "floor")
    yield compare("http handshake, resumable", handshake, Fraction(1, 8))
    for case in (modern, handshake):
        yield compare(f"http {case.era}, default loop", replace(case, server="bridge"), Fraction(1, 4))
    yield compare("http modern, with a page that is not open", Case(server="page", transport="http"), 1.05, "bridge")


def list_size_goals():
    """Yield the goals for many tools: calls as cheap as with few, and a cheap list."""
    for transport in TRANSPORTS:
        few = Case(server="bridge", transport=transport)
        name = f"{transport}: bridge with {MOST_TOOLS:,} tools / with {TOOLS}"
        yield Goal(name=name, case=replace(few, tools=MOST_TOOLS), base=few, limit=1.3)
    for transport in TRANSPORTS:
        case = Case(kind="list", server="bridge", transport=transport, tools=MOST_TOOLS)
        yield compare(f"{transport}: tools/list of {MOST_TOOLS:,} tools", case, Fraction(1, 50))


def list_start_goals():
    """Yield the goals of the start and of memory."""
    schemas, typed = (Case(kind="start", server=server) for server in ("bridge", "bridge-typed"))
    yield compare("start, dict schemas", schemas, 0.2)
    yield compare("start, typed signatures", typed, 0.3)
    yield replace(compare("memory of all processes", schemas, 0.6), field="memory")
