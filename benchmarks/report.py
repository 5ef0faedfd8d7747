"""Turns samples into ratios, tables, the verdict and JSON."""

import os
import platform
import statistics
import sys
from dataclasses import asdict
from importlib import metadata

from benchmarks.cases import get_base
from benchmarks.goals import list_goals
from benchmarks.measure import STREAMS

PACKAGES = ("mcp-tool-bridge", "mcp", "fastmcp", "uvicorn", "uvloop", "httptools", "orjson", "pydantic")
BUSY = 0.9
"""From this share of a window on, the client counts as its limit."""


def get_median(samples, field="cost"):
    """Return the median of one field."""
    return statistics.median(getattr(sample, field) for sample in samples)


def collect_facts():
    """Return the machine and the versions of a run."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "-"
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": [],
        "versions": versions,
    }


def record_load(facts):
    """Add the load of the last minute to the facts."""
    facts["load"].append(round(os.getloadavg()[0], 1))


def print_facts(facts):
    """Print the facts of the machine, with its load before and after the run."""
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    load = " to ".join(str(value) for value in facts["load"])
    print(f"{facts['python']}, {facts['system']}, {facts['cores']} cores, load {load}")
    print(versions)


def dim(text):
    """Return `text` dimmed, if the terminal can show it."""
    return f"\033[2m{text}\033[0m" if sys.stdout.isatty() else text


def format_ratio(case, results, server, field="cost"):
    """Return the ratio to a server in the same situation, and the lowest and highest ratio of the rounds."""
    base = results.get(get_base(case, server))
    if not base:
        return f"{'-':>9} {'':13}"
    pairs = zip(results[case], base, strict=False)
    return format_spread([getattr(sample, field) / getattr(other, field) for sample, other in pairs])


def format_spread(values):
    """Return the median of `values`, and the lowest and the highest."""
    texts = []
    for value in (statistics.median(values), min(values), max(values)):
        texts.append(f"{value:.3f}" if value < 10 else f"{value:.1f}")
    middle, low, high = texts
    return f"{middle:>9} {f'{low}-{high}':13}"


def format_calls(case, results, server):
    """Return the line of one case of calls or lists, compared with the SDK's server and with another."""
    samples = results[case]
    cost = get_median(samples) * 1e6
    speed = get_median(samples, "per_second")
    busy = "*" if get_median(samples, "client_busy") > BUSY else " "
    middle, high = (get_median(samples, field) * 1e3 for field in ("latency_p50", "latency_p99"))
    ratios = f"{format_ratio(case, results, 'sdk')} {format_ratio(case, results, server)}"
    figures = f"{cost:10.1f} {speed:10.0f}{busy} {middle:8.2f} {high:8.2f}  {case.event_loop:8}"
    return f"{case!s:40} {ratios} " + dim(f"{figures} {samples[-1].response_type}")


def format_echo(case, results):
    """Return the line of one case of calls of `echo` or of lists."""
    return format_calls(case, results, "floor")


def format_workload(case, results):
    """Return the line of one case of calls of another workload."""
    return format_calls(case, results, "fastmcp")


def format_start(case, results):
    """Return the line of one case of starts."""
    samples = results[case]
    ratios = f"{format_ratio(case, results, 'sdk')} {format_ratio(case, results, 'sdk', 'memory')}"
    figures = dim(f"{get_median(samples) * 1e3:10.0f} {get_median(samples, 'memory') / 2**20:10.1f}")
    return f"{case!s:40} {ratios} {figures}"


def format_streams(case, results):
    """Return the line of one case of streams."""
    return f"{case!s:40} {format_spread([sample.memory / 1024 for sample in results[case]])}"


COLUMNS = f"{'spread':13} {'us each':>10} {'per second':>10}  {'p50 ms':>8} {'p99 ms':>8}  loop     responses"
ECHO_COLUMNS = f"{'/ sdk':>50} {'spread':13} {'/ floor':>9} {COLUMNS}"
WORKLOAD_COLUMNS = f"{'/ sdk':>50} {'spread':13} {'/ fastmcp':>9} {COLUMNS}"
TABLES = {
    "echo": ("Server CPU per tools/call of echo", ECHO_COLUMNS, format_echo),
    "workloads": ("Server CPU per request of the other workloads", WORKLOAD_COLUMNS, format_workload),
    "list": ("Server CPU per whole tools/list", ECHO_COLUMNS, format_echo),
    "start": (
        "Spawn to first tools/list response, then memory (PSS) of all processes after 100 calls",
        f"{'/ sdk':>50} {'spread':13} {'memory':>9} {'spread':13} {'ms':>10} {'MiB':>10}",
        format_start,
    ),
    "streams": (f"Memory (PSS) of each of {STREAMS:,} idle listen streams", f"{'KiB':>50} spread", format_streams),
}
"""Title, head and lines of each table."""


def get_table(case):
    """Return the table of a case."""
    if case.kind != "calls":
        return case.kind
    return "workloads" if case.has_examples else "echo"


def print_tables(results):
    """Print the tables: ratios first (lower is better), absolute figures after them."""
    for table, (title, head, format_line) in TABLES.items():
        lines = [format_line(case, results) for case in results if get_table(case) == table]
        if lines:
            print(f"\n{title}\n{head}")
            print("\n".join(lines))
    if any(get_median(samples, "client_busy") > BUSY for samples in results.values()):
        print(dim("* the client was the limit: the server could do more"))


def judge_goals(results, failures):
    """Yield each goal that was measured, its figure (None if a server failed), and whether it is met."""
    for goal in list_goals():
        cases = (goal.case, goal.base)
        if all(case in results for case in cases):
            figure = statistics.median(goal.list_figures(results[goal.case], results[goal.base]))
            yield goal, figure, figure <= goal.limit
        elif any(case in failures for case in cases):
            yield goal, None, False


def print_verdicts(verdicts, failures):
    """Print a line for each goal and each failure; return whether all goals are met."""
    print("\nGoals")
    for goal, figure, is_met in verdicts:
        measured = "not measured: a server failed" if figure is None else goal.format(figure)
        print(f"{'met   ' if is_met else 'MISSED'} {goal.name} {goal.condition}: {measured}")
    for case in failures:
        print(f"FAILED {case} ({case.kind})")
    print(f"{sum(is_met for _, _, is_met in verdicts)} of {len(verdicts)} goals are met")
    return not failures and all(is_met for _, _, is_met in verdicts)


def make_document(facts, results, failures, verdicts):
    """Return the whole run, ready for JSON."""
    return {
        "facts": facts,
        "cases": [
            {"case": asdict(case), "samples": [asdict(sample) for sample in samples]}
            for case, samples in results.items()
        ],
        "failures": [{"case": asdict(case), "error": error} for case, error in failures.items()],
        "goals": [
            {"name": goal.name, "condition": goal.condition, "figure": figure, "met": is_met}
            for goal, figure, is_met in verdicts
        ],
    }
