"""Samples to ratios, a plain table, the verdict and JSON."""

import os
import platform
import statistics
import sys
from dataclasses import asdict
from importlib import metadata

from benchmarks.cases import all_goals, base_of

PACKAGES = ("mcp-tool-bridge", "mcp", "fastmcp", "uvicorn", "uvloop", "httptools", "orjson", "pydantic")


def median(samples, field="cost"):
    """The median of one field."""
    return statistics.median(getattr(sample, field) for sample in samples)


def ratios(samples, base):
    """Round by round, how many times the cost of `base`: both were measured seconds apart."""
    return [own.cost / other.cost for own, other in zip(samples, base, strict=False)]


def facts():
    """The machine and the versions that the figures belong to."""
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
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "versions": versions,
    }


def print_facts(found):
    """Print the machine's facts."""
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    print(f"{found['python']}, {found['system']}, {found['cores']} cores, load {found['load']}")
    print(versions)


def spread(values):
    """Lowest to highest."""
    return f"{min(values):.2f}-{max(values):.2f}"


def dim(text):
    """Small print, where the terminal can."""
    return f"\033[2m{text}\033[0m" if sys.stdout.isatty() else text


def ratio_cells(case, results):
    """The ratio to the SDK's server and its spread over the rounds."""
    base = results.get(base_of(case))
    if not base:
        return f"{'-':>7} {'':11}"
    values = ratios(results[case], base)
    return f"{statistics.median(values):7.2f} {spread(values):11}"


def call_line(case, results):
    """The line of one case of calls."""
    samples, base = results[case], results.get(base_of(case))
    speed = f"{median(samples, 'per_second') / median(base, 'per_second'):6.2f}" if base else f"{'-':>6}"
    mark = "*" if median(samples, "client_busy") > 0.9 else " "
    small = dim(
        f"{median(samples) * 1e6:8.0f} {median(samples, 'per_second'):8.0f}{mark}"
        f"{median(samples, 'peak_rss') / 2**20:6.0f}  {case.event_loop:7}  {samples[-1].reply_type}"
    )
    return f"{case!s:34} {ratio_cells(case, results)} {speed} {small}"


def start_line(case, results):
    """The line of one case of starts."""
    samples = results[case]
    small = dim(f"{median(samples) * 1e3:8.0f} {median(samples, 'peak_rss') / 2**20:14.0f}")
    return f"{case!s:34} {ratio_cells(case, results)} {small}"


def print_tables(results):
    """One table of calls, one of starts: ratios first, absolute figures after them."""
    calls = [case for case in results if case.kind == "calls"]
    if calls:
        print("\nServer CPU per tools/call, as a ratio to the SDK's server (lower is better)")
        print(f"{'':34}   ratio spread       speed " + dim("  us/call  calls/s   MiB  loop     replies"))
        print(*(call_line(case, results) for case in calls), sep="\n")
        if any(median(results[case], "client_busy") > 0.9 for case in calls):
            print(dim("* the client was the limit: the server could do more"))
    starts = [case for case in results if case.kind == "start"]
    if starts:
        print("\nSpawn to first tools/list reply, as a ratio to the SDK's server (lower is better)")
        print(f"{'':34}   ratio spread      " + dim("       ms            MiB"))
        print(*(start_line(case, results) for case in starts), sep="\n")


def verdicts(results, failures):
    """For each goal that was asked for: name, ratio (None when a server failed), met or not."""
    for goal in all_goals():
        pair = (goal.case, goal.base)
        if all(case in results for case in pair):
            ratio = statistics.median(goal.figures(results[goal.case], results[goal.base]))
            yield goal, ratio, goal.met(ratio)
        elif any(case in failures for case in pair):
            yield goal, None, False


def print_verdicts(found, failures):
    """Print a line for each goal and each failure; the return value says whether all is well."""
    print("\nGoals")
    for goal, ratio, met in found:
        figure = "not measured: a server failed" if ratio is None else f"{ratio:.2f}"
        print(f"{'met   ' if met else 'MISSED'} {goal.name} {goal.condition}: {figure}")
    for case in failures:
        print(f"FAILED {case} ({case.kind})")
    return not failures and all(met for _, _, met in found)


def document(found, results, failures, verdict):
    """The whole run, ready for JSON."""
    return {
        "facts": found,
        "cases": [
            {"case": asdict(case), "samples": [asdict(sample) for sample in samples]}
            for case, samples in results.items()
        ],
        "failures": [{"case": asdict(case), "error": error} for case, error in failures.items()],
        "goals": [
            {"name": goal.name, "condition": goal.condition, "ratio": ratio, "met": met} for goal, ratio, met in verdict
        ],
    }
