"""FastMCP's own tests, with the bridge between its clients and its servers.

`make test-fastmcp` makes an environment under .venv-frameworks/, downloads the tests from PyPI into it, runs those that
reach a server, and compares the failures with fastmcp_differences.toml. Ends with 1 for an unexpected failure or pass.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

from tests.kits.frameworks.environments import FOLDER
from tests.kits.paths import ROOT

VERSION = "4.1.7"
HERE = Path(__file__).parent
PACKAGES = (
    "dirty-equals", "fastapi", "inline-snapshot", "opentelemetry-sdk", "psutil", "pytest-asyncio", "pytest-env",
    "pytest-retry", "pytest-timeout", "pytest-xdist",
)  # fmt: skip
CONNECTS = re.compile(r"\bClient\(")
ELSEWHERE = re.compile(
    r"tests/(cli|conformance|deprecated|docs|downstream|fs|integration_tests|scripts|server/auth|server/http"
    r"|server/telemetry|tasks|telemetry)/|openapi"
)
NEEDS_MORE = re.compile(r"^(from|import) (docket|fastmcp_tasks|httpx|openai|prefab_ui|pydantic_monty)\b", re.MULTILINE)


def make() -> tuple[Path, Path]:
    """Return the Python of the environment, and the folder of FastMCP's tests in it."""
    folder = FOLDER / "fastmcp-suite"
    python, suite, done = folder / "bin" / "python", folder / f"fastmcp-{VERSION}", folder / ".done"
    if done.exists() and done.stat().st_mtime > (ROOT / "pyproject.toml").stat().st_mtime and suite.exists():
        return python, suite
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "-e", ".[test-fastmcp]", f"fastmcp=={VERSION}", *PACKAGES], cwd=ROOT, check=True)
    source = ["--no-deps", "--no-binary", "fastmcp", f"fastmcp=={VERSION}"]
    subprocess.run([*pip, "download", *source, "--dest", str(folder)], check=True)
    with tarfile.open(folder / f"fastmcp-{VERSION}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    done.touch()
    return python, suite


def select_files(suite: Path) -> list[str]:
    """Return the test files whose clients may reach a server in the same process."""
    files = []
    for path in sorted((suite / "tests").rglob("test_*.py")):
        place, text = path.relative_to(suite).as_posix(), path.read_text("utf-8")
        if CONNECTS.search(text) and not ELSEWHERE.search(place) and not NEEDS_MORE.search(text):
            files.append(place)
    return files


def run(python: Path, suite: Path) -> dict[str, bool]:
    """Run the tests; whether each that has reached a server has passed."""
    report = suite / "report.txt"
    report.unlink(missing_ok=True)
    options = ["-p", "fastmcp_plugin", "-p", "no:cacheprovider", "-q", "--tb=no", "--timeout", "20", "-n", "2"]
    command = [str(python), "-m", "pytest", *options, "-o", "pythonpath=", "--continue-on-collection-errors"]
    environment = {**os.environ, "PYTHONPATH": str(HERE), "FASTMCP_REPORT": str(report)}
    subprocess.run([*command, *select_files(suite)], cwd=suite, env=environment, check=False)
    passed: dict[str, bool] = {}
    for line in report.read_text("utf-8").splitlines():
        outcome, _, name = line.partition(" ")
        if outcome in ("passed", "failed"):
            name = name.removeprefix("tests/")
            passed[name] = passed.get(name, True) and outcome == "passed"
    return passed


def compare_results(passed: Mapping[str, bool], expected: set[str]) -> list[str]:
    """Return a line for each difference from the expected failures. A name without parameters means all of them."""
    lines = []
    for name, has_passed in passed.items():
        is_expected = name in expected or name.partition("[")[0] in expected
        if has_passed == is_expected:
            lines.append(f"unexpected {'pass' if has_passed else 'failure'}: {name}")
    names = {*passed, *(name.partition("[")[0] for name in passed)}
    return [*lines, *(f"not run, or does not reach a server: {name}" for name in sorted(expected - names))]


def read_expected_failures() -> set[str]:
    """Return the names of the tests that are expected to fail."""
    table = tomllib.loads((HERE / "fastmcp_differences.toml").read_text("utf-8"))
    return {name for group in table["difference"] for name in group["tests"]}


if __name__ == "__main__":
    results = run(*make())
    differences = compare_results(results, read_expected_failures())
    print(*differences, f"{sum(results.values())} of {len(results)} tests pass through the bridge", sep="\n")
    sys.exit(bool(differences))
