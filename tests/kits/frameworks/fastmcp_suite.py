"""FastMCP's own tests, with the bridge between its clients and its servers.

`make test-fastmcp` downloads the tests from PyPI into an environment under .venv-frameworks/, runs those with a server,
and compares the failures with fastmcp_differences.toml. An unexpected failure runs once more, alone, in case the
machine was busy. It ends with 1 if an unlisted test fails. A listed test that passes is a note.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.kits.frameworks.environments import FOLDER, make_environment

VERSION = "4.1.7"
DIFFERENCES = Path(__file__).with_name("fastmcp_differences.toml")
PACKAGES = (
    "dirty-equals", "fastapi", "inline-snapshot", "opentelemetry-sdk", "psutil", "pytest-asyncio", "pytest-env",
    "pytest-retry", "pytest-timeout", "pytest-xdist",
)  # fmt: skip
MINIMUM = 1500
"""If fewer tests reach a server, the run itself is broken."""
MAX_REPEATED = 50
"""More failures have another cause than a busy machine."""
CONNECTS = re.compile(r"\bClient\(")
ELSEWHERE = re.compile(
    r"tests/(cli|client/auth|conformance|deprecated|docs|downstream|fs|integration_tests|scripts"
    r"|server/(auth|http|telemetry)|tasks|telemetry)/|openapi"
    r"|/test_(auth|sse|sse_event_size|stdio|streamable_http|tests|transports|uv_transport)\.py"
)
"""Test files whose clients reach servers in other ways."""
NEEDS_MORE = re.compile(r"^(from|import) (docket|fastmcp_tasks|httpx|openai|prefab_ui|pydantic_monty)\b", re.MULTILINE)
"""Imports of packages that FastMCP does not require."""


def make_suite() -> tuple[Path, Path]:
    """Return the Python of the environment, and the folder of FastMCP's tests in it."""
    python = make_environment("fastmcp")
    folder = FOLDER / "fastmcp"
    suite = folder / f"fastmcp-{VERSION}"
    marker = suite / ".done"
    if not marker.exists():
        pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", f"fastmcp=={VERSION}", *PACKAGES], check=True)
        source = ["--no-deps", "--no-binary", "fastmcp", f"fastmcp=={VERSION}"]
        subprocess.run([*pip, "download", *source, "--dest", str(folder)], check=True)
        with tarfile.open(folder / f"fastmcp-{VERSION}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
        marker.touch()
    return python, suite


def select_files(suite: Path) -> list[str]:
    """Return the test files with clients of a server in the same process."""
    files = []
    for path in sorted((suite / "tests").rglob("test_*.py")):
        place, text = path.relative_to(suite).as_posix(), path.read_text("utf-8")
        if CONNECTS.search(text) and not ELSEWHERE.search(place) and not NEEDS_MORE.search(text):
            files.append(place)
    return files


def run(python: Path, suite: Path, tests: Sequence[str], *options: str) -> dict[str, bool]:
    """Run tests. Return the tests that have reached a server, and whether each has passed."""
    report = suite / "report.txt"
    report.write_text("", "utf-8")
    command = [str(python), "-m", "pytest", "-p", "fastmcp_plugin", "-p", "no:cacheprovider", "-q", "-o", "pythonpath="]
    command += ["--continue-on-collection-errors", "--timeout", "60", *options]
    environment = {**os.environ, "PYTHONPATH": str(DIFFERENCES.parent), "FASTMCP_REPORT": str(report)}
    subprocess.run([*command, *tests], cwd=suite, env=environment, check=False)
    passed: dict[str, bool] = {}
    for line in report.read_text("utf-8").splitlines():
        outcome, _, name = line.partition(" ")
        if outcome in ("passed", "failed"):
            name = name.removeprefix("tests/")
            passed[name] = passed.get(name, True) and outcome == "passed"
    return passed


def is_listed(name: str, differences: Container[str]) -> bool:
    """Return whether a test is listed. A name without parameters lists all tests of this name."""
    return name in differences or name.partition("[")[0] in differences


def find_unlisted_failures(passed: Mapping[str, bool], differences: Container[str]) -> list[str]:
    """Return the failed tests without a listed difference."""
    return [name for name, has_passed in passed.items() if not has_passed and not is_listed(name, differences)]


def list_notes(
    passed: Mapping[str, bool], second_run: Mapping[str, bool], differences: Container[str]
) -> Iterator[str]:
    """Yield the lines of notes. `second_run` has the results of a second run of unlisted failures."""
    for name, has_passed in passed.items():
        if has_passed and is_listed(name, differences):
            yield f"note: it is listed as a difference and passes: {name}"
    for name, has_passed in second_run.items():
        if has_passed:
            yield f"note: it has failed, and passes alone: {name}"


def list_problems(
    passed: Mapping[str, bool], second_run: Mapping[str, bool], differences: Container[str]
) -> Iterator[str]:
    """Yield the problems of the run."""
    for name in find_unlisted_failures(passed, differences):
        if not second_run.get(name):
            yield f"it fails and is not listed: {name}"
    if len(passed) < MINIMUM:
        yield f"only {len(passed)} tests have reached a server; at least {MINIMUM} are expected"


def run_all(groups: Sequence[Mapping[str, Any]]) -> int:
    """Run the suite and print the differences from the list. Return the exit code."""
    python, suite = make_suite()
    output = {name for group in groups for name in group["tests"]}
    skipped = [name for group in groups if not group.get("runs", True) for name in group["tests"]]
    options = ["--tb=no", "-n", "2", *(f"--deselect=tests/{name}" for name in skipped)]
    passed = run(python, suite, select_files(suite), *options)
    failures = find_unlisted_failures(passed, output)
    second_run: dict[str, bool] = {}
    if 0 < len(failures) <= MAX_REPEATED:
        second_run = run(python, suite, [f"tests/{name}" for name in failures], "--tb=short")
    problems = list(list_problems(passed, second_run, output))
    total = f"{sum(passed.values())} of {len(passed)} tests of FastMCP {VERSION} pass through the bridge"
    print(*list_notes(passed, second_run, output), *problems, total, sep="\n")
    return int(bool(problems))


def read_differences() -> list[dict[str, Any]]:
    """Return the groups of tests with a common reason to fail."""
    table = tomllib.loads(DIFFERENCES.read_text("utf-8"))
    return list(table["difference"])


if __name__ == "__main__":
    sys.exit(run_all(read_differences()))
