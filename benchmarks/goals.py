"""The goals that the figures of a run must meet."""

from dataclasses import dataclass, replace
from fractions import Fraction

from benchmarks.cases import HOOKS, MOST_TOOLS, TOOLS, TRANSPORTS, Case, base_of
from benchmarks.wire import Era


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """`case` may have at most `limit` times the `field` of `base`: "cost" or "memory"."""

    name: str
    case: Case
    base: Case
    limit: Fraction | float
    field: str = "cost"

    def figures(self, own, base):
        """Return what is judged, round by round: both samples of a pair were measured seconds apart."""
        return [getattr(one, self.field) / getattr(other, self.field) for one, other in zip(own, base, strict=False)]

    def show(self, figure):
        """Return `figure` in the unit of the limit."""
        return f"1/{1 / figure:.1f}" if isinstance(self.limit, Fraction) and figure < 1 else f"{figure:.2f}"

    @property
    def condition(self):
        return f"<= {self.limit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookGoal(Goal):
    """Each hook that `case` has more than `base` may cost at most `limit` microseconds of CPU per call."""

    def figures(self, own, base):
        more = self.case.hooks - self.base.hooks
        return [(one.cost - other.cost) * 1e6 / more for one, other in zip(own, base, strict=False)]

    @property
    def condition(self):
        return f"<= {self.limit} us"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamGoal(Goal):
    """Each idle stream of `case` may take at most `limit` KiB. There is nothing to compare with."""

    def figures(self, own, base):
        return [one.memory / 1024 for one in own]

    @property
    def condition(self):
        return f"<= {self.limit} KiB"


def all_goals():
    """Yield every goal."""
    yield from stdio_goals()
    yield from http_goals()
    yield from size_goals()
    yield from start_goals()
    streams = Case(kind="streams", server="bridge", transport="http")
    yield StreamGoal(name="http: an idle listen stream", case=streams, base=streams, limit=20)
    none, one, most = (Case(server="native", transport="stdio", hooks=hooks) for hooks in HOOKS)
    yield HookGoal(name="stdio: a hook of five", case=most, base=none, limit=10)
    yield HookGoal(name="stdio: one more hook", case=most, base=one, limit=10)


def compare(title, case, limit, server="sdk"):
    """Return the goal that `case` is within `limit` of another server in the same situation."""
    return Goal(name=f"{title}: {case.server} / {server}", case=case, base=base_of(case, server), limit=limit)


def stdio_goals():
    """Yield the goals of calls over stdio, with the default settings."""
    for era in Era:
        case = Case(server="bridge", transport="stdio", era=era)
        yield compare(f"stdio {era}", case, Fraction(1, 25))
        yield compare(f"stdio {era}", case, 5, "floor")
    yield compare("stdio, under policies", Case(server="governed", transport="stdio"), 3, "bridge")
    yield compare("stdio, under policies and audit", Case(server="audited", transport="stdio"), 3, "bridge")


def http_goals():
    """Yield the goals of calls over HTTP, on uvloop as the SDK's server and on the default loop.

    In the handshake era, both sides keep sessions and respond with events. Only those of the bridge are stored for
    resuming, as is its default.
    """
    modern, handshake = (Case(server="bridge-uvloop", transport="http", era=era) for era in Era)
    yield compare("http modern", modern, Fraction(1, 6))
    yield compare("http modern", modern, 2, "floor")
    yield compare("http handshake, resumable", handshake, Fraction(1, 8))
    for case in (modern, handshake):
        yield compare(f"http {case.era}, default loop", replace(case, server="bridge"), Fraction(1, 4))
    yield compare("http modern, with a page that is not open", Case(server="page", transport="http"), 1.05, "bridge")


def size_goals():
    """Yield the goals for many tools: calls as cheap as with few, and a cheap list."""
    for transport in TRANSPORTS:
        few = Case(server="bridge", transport=transport)
        name = f"{transport}: bridge with {MOST_TOOLS:,} tools / with {TOOLS}"
        yield Goal(name=name, case=replace(few, tools=MOST_TOOLS), base=few, limit=1.3)
    for transport in TRANSPORTS:
        case = Case(kind="list", server="bridge", transport=transport, tools=MOST_TOOLS)
        yield compare(f"{transport}: tools/list of {MOST_TOOLS:,} tools", case, Fraction(1, 50))


def start_goals():
    """Yield the goals of the start and of memory."""
    schemas, typed = (Case(kind="start", server=server, transport="stdio") for server in ("bridge", "bridge-typed"))
    yield compare("start, dict schemas", schemas, 0.2)
    yield compare("start, typed signatures", typed, 0.3)
    yield replace(compare("memory of all processes", schemas, 0.6), field="memory")
