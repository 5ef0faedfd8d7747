"""The environments for tests of frameworks, and the only place that decides about missing packages.

`make test` has the frameworks of the extra `test`. Each other framework has an environment, with an extra in
pyproject.toml. `make test-frameworks`, or `python -m tests.kits.frameworks.environments [NAME ...]`, makes these
environments under .venv-frameworks/, and runs the test files with `require_framework("its framework")` in each. It ends
with status 1 if one fails.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.kits.paths import ROOT

FOLDER = ROOT / ".venv-frameworks"
CLAIMED = "MCP_BRIDGE_FRAMEWORKS"
"""The variable with the frameworks of the current environment, separated by commas."""
MODULES = {
    "anthropic": "anthropic",
    "fastmcp": "fastmcp",
    "google_genai": "google.genai",
    "langchain": "langchain_core",
    "llm": "llm",
    "openai": "openai",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
    "smolagents": "smolagents",
    "utcp": "utcp",
    "xaibo": "xaibo",
}
"""Frameworks and their modules."""
ENVIRONMENTS = {"fastmcp": ("fastmcp", "pydantic_ai"), "llm": ("llm",)}
"""Environments and the frameworks in them. The environment `NAME` is installed with the extra `test-NAME`."""


def get_required_packages() -> set[str]:
    """Return the frameworks to be installed: those of the variable, or those of the extra `test`."""
    if (text := os.environ.get(CLAIMED)) is not None:
        return set(filter(None, text.split(",")))
    return set(MODULES) - set(ENVIRONMENTS)


def require_framework(framework: str) -> None:
    """Skip this test file if its framework is not installed, and fail if it should be.

    Call it before the framework's import. Raises RuntimeError if this environment should have the package.
    """
    if _installed(MODULES[framework]):
        return
    if framework in get_required_packages():
        raise RuntimeError(
            f"{framework} is not installed, and this environment should have it (make test, or {CLAIMED})"
        )
    pytest.skip(f"{framework} has an environment of its own: make test-frameworks", allow_module_level=True)


def list_tests(frameworks: Sequence[str]) -> list[Path]:
    """List the test files that require one of these frameworks."""
    text = re.compile(rf'^(?:require_framework|pytest\.importorskip)\("(?:{"|".join(frameworks)})"', re.MULTILINE)
    return [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if text.search(path.read_text("utf-8"))]


def make_environment(name: str) -> Path:
    """Return the Python of an environment. It is made again if pyproject.toml is newer."""
    folder, python = FOLDER / name, FOLDER / name / "bin" / "python"
    marker = folder / ".done"
    if not marker.exists() or marker.stat().st_mtime < (ROOT / "pyproject.toml").stat().st_mtime:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-e", f".[test-{name}]"], cwd=ROOT, check=True)
        subprocess.run(
            [str(python), "-c", f"import {', '.join(MODULES[item] for item in ENVIRONMENTS[name])}"], check=True
        )
        marker.touch()
    return python


def run(name: str) -> int:
    """Run the tests of an environment, and return the exit code."""
    frameworks = ENVIRONMENTS[name]
    start = time.monotonic()
    python = make_environment(name)
    made = time.monotonic()
    # Without any path, pytest would run all tests. It fails for a path that does not exist.
    paths = [str(path) for path in list_tests(frameworks)] or ["no tests need this"]
    environment = {**os.environ, CLAIMED: ",".join(frameworks)}
    code = subprocess.run([str(python), "-m", "pytest", *paths], cwd=ROOT, env=environment, check=False).returncode
    end = time.monotonic()
    print(f"{name}: exit code {code}, made in {made - start:.0f} s, tested in {end - made:.0f} s", flush=True)
    return code


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        # A parent package is missing.
        return False


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Test frameworks in environments of their own.")
    parser.add_argument("names", nargs="*", help=f"which: {', '.join(ENVIRONMENTS)}; all when none is named")
    codes = [run(name) for name in parser.parse_args().names or ENVIRONMENTS]
    sys.exit(any(codes))
