"""Samples to ratios, a plain table, the verdict and JSON."""

import os
import platform
import statistics
import sys
from dataclasses import asdict
from importlib import metadata

from benchmarks.cases import base_of
from benchmarks.goals import all_goals
from benchmarks.measure import STREAMS

PACKAGES = ("mcp-tool-bridge", "mcp", "fastmcp", "uvicorn", "uvloop", "httptools", "orjson", "pydantic")
BUSY = 0.9
"""The share of a window from which on the client counts as its limit."""


def median(samples, field="cost"):
    """Return the median of one field."""
    return statistics.median(getattr(sample, field) for sample in samples)


def ratios(samples, base, field="cost"):
    """Return, round by round, how many times the `field` of `base`: both were measured seconds apart."""
    return [getattr(own, field) / getattr(other, field) for own, other in zip(samples, base, strict=False)]


def facts():
    """Return the machine and the versions that the figures belong to."""
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


def record_load(found):
    """Add the load of the last minute to the facts."""
    found["load"].append(round(os.getloadavg()[0], 1))


def print_facts(found):
    """Print the facts of the machine, with its load before and after the run."""
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    print(f"{found['python']}, {found['system']}, {found['cores']} cores, load {' to '.join(map(str, found['load']))}")
    print(versions)


def dim(text):
    """Return `text` in small print, if the terminal has it."""
    return f"\033[2m{text}\033[0m" if sys.stdout.isatty() else text


def ratio_cells(case, results, *, server="sdk", field="cost"):
    """Return the ratio to a server in the same situation, and its lowest and highest value over the rounds."""
    base = results.get(base_of(case, server))
    if not base:
        return f"{'-':>7} {'':13}"
    return value_cells(ratios(results[case], base, field))


def value_cells(values):
    """Return the median of `values`, and the lowest and the highest."""
    middle, low, high = (
        f"{value:.3f}" if value < 10 else f"{value:.1f}"
        for value in (statistics.median(values), min(values), max(values))
    )
    return f"{middle:>7} {f'{low}-{high}':13}"


def call_line(case, results):
    """Return the line of one case of calls or lists."""
    samples = results[case]
    busy = "*" if median(samples, "client_busy") > BUSY else " "
    speed = f"{median(samples) * 1e6:10.1f} {median(samples, 'per_second'):10.0f}{busy}"
    return f"{case!s:38} {ratio_cells(case, results)} {ratio_cells(case, results, server='floor')} " + dim(
        f"{speed} {case.event_loop:8} {samples[-1].reply_type}"
    )


def start_line(case, results):
    """Return the line of one case of starts."""
    samples = results[case]
    figures = dim(f"{median(samples) * 1e3:10.0f} {median(samples, 'memory') / 2**20:10.1f}")
    return f"{case!s:38} {ratio_cells(case, results)} {ratio_cells(case, results, field='memory')} {figures}"


def stream_line(case, results):
    """Return the line of one case of streams."""
    return f"{case!s:38} {value_cells([sample.memory / 1024 for sample in results[case]])}"


CALL_COLUMNS = (
    f"{'/ sdk':>46} {'spread':13} {'/ floor':>7} {'spread':13} {'us each':>10} {'per second':>10}  loop     replies"
)
TABLES = {
    "calls": ("Server CPU per tools/call", CALL_COLUMNS, call_line),
    "list": ("Server CPU per whole tools/list", CALL_COLUMNS, call_line),
    "start": (
        "Spawn to first tools/list response, then memory (PSS) of all processes after 100 calls",
        f"{'/ sdk':>46} {'spread':13} {'memory':>7} {'spread':13} {'ms':>10} {'MiB':>10}",
        start_line,
    ),
    "streams": (f"Memory (PSS) of each of {STREAMS:,} idle listen streams", f"{'KiB':>46} spread", stream_line),
}
"""Title, head and lines of the table of each kind of case."""


def print_tables(results):
    """Print one table for each kind of case: ratios first (lower is better), absolute figures after them."""
    for kind, (title, head, line) in TABLES.items():
        if cases := [case for case in results if case.kind == kind]:
            print(f"\n{title}\n{head}")
            print(*(line(case, results) for case in cases), sep="\n")
    if any(median(samples, "client_busy") > BUSY for samples in results.values()):
        print(dim("* the client was the limit: the server could do more"))


def verdicts(results, failures):
    """Yield each goal that was asked for, its figure (None if a server failed), and whether it is met."""
    for goal in all_goals():
        pair = (goal.case, goal.base)
        if all(case in results for case in pair):
            figure = statistics.median(goal.figures(results[goal.case], results[goal.base]))
            yield goal, figure, figure <= goal.limit
        elif any(case in failures for case in pair):
            yield goal, None, False


def print_verdicts(found, failures):
    """Print a line for each goal and each failure; return whether all goals are met."""
    print("\nGoals")
    for goal, figure, is_met in found:
        measured = "not measured: a server failed" if figure is None else goal.show(figure)
        print(f"{'met   ' if is_met else 'MISSED'} {goal.name} {goal.condition}: {measured}")
    for case in failures:
        print(f"FAILED {case} ({case.kind})")
    print(f"{sum(is_met for _, _, is_met in found)} of {len(found)} goals are met")
    return not failures and all(is_met for _, _, is_met in found)


def document(found, results, failures, verdict):
    """Return the whole run, ready for JSON."""
    return {
        "facts": found,
        "cases": [
            {"case": asdict(case), "samples": [asdict(sample) for sample in samples]}
            for case, samples in results.items()
        ],
        "failures": [{"case": asdict(case), "error": error} for case, error in failures.items()],
        "goals": [
            {"name": goal.name, "condition": goal.condition, "figure": figure, "met": is_met}
            for goal, figure, is_met in verdict
        ],
    }
