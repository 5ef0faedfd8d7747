"""`make bench` installs the extra `bench` alone, so the benchmarks may need nothing else."""

import ast
import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.cases import Case, list_cases
from tests.kits.paths import ROOT

# The command mcp-bridge in an environment where the modules of the first argument are not installed.
COMMAND = """
import json, sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

absent = json.loads(sys.argv.pop(1))
sys.meta_path.insert(0, Absent())
from mcp_bridge._cli import main
main()
"""


def list_distributions(name: str, extras: frozenset[str], visited: set[tuple[str, frozenset[str]]]) -> set[str]:
    """Return the distributions in an installation of `name[extras]`. Those of unknown ones are missing."""
    if (name, extras) in visited:
        return set()
    visited.add((name, extras))
    distributions = {name}
    try:
        requirements = [Requirement(line) for line in requires(name) or []]
    except ModuleNotFoundError:
        return distributions
    for requirement in requirements:
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""}):
            requirement_name = canonicalize_name(requirement.name)
            distributions |= list_distributions(requirement_name, frozenset(requirement.extras), visited)
    return distributions


def list_bridge_cases() -> list[Case]:
    """Return a case for each file that the bridge serves, and for each host of hooks."""
    cases = {}
    for case in list_cases():
        if case.kind == "calls" and case.is_bridge:
            small_case = replace(case, transport="stdio", tools=2, hooks=None if case.hooks is None else 1)
            cases.setdefault(small_case.make_command(), small_case)
    return list(cases.values())


def list_imports(file: Path) -> set[str]:
    """Return the top-level names of all modules that a file imports."""
    names = []
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    return {name.partition(".")[0] for name in names}


@pytest.fixture(scope="module")
def distributions() -> set[str]:
    return list_distributions("mcp-tool-bridge", frozenset({"bench"}), set())


@pytest.mark.parametrize("case", list_bridge_cases(), ids=lambda case: f"{case.server} {case.workload}")
def test_the_extra_installs_what_the_bridge_needs_for_a_call(
    case: Case, distributions: set[str], tmp_path: Path
) -> None:
    absent_modules = [
        module
        for module, owners in packages_distributions().items()
        if distributions.isdisjoint(canonicalize_name(owner) for owner in owners)
    ]
    command = case.make_command()
    process = subprocess.run(
        [
            sys.executable,
            "-c",
            COMMAND,
            json.dumps(absent_modules),
            "call",
            command.arguments[-1],
            "echo",
            "text=hello",
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | dict(command.env) | {"BENCH_TRAIL": str(tmp_path / "trail.sqlite3")},
        timeout=60,
    )
    assert process.stdout == "hello\n", process.stderr


def test_the_extra_installs_what_the_benchmarks_import(distributions: set[str]) -> None:
    owners = packages_distributions()
    missing = []
    for file in (ROOT / "benchmarks").rglob("*.py"):
        for module in list_imports(file) - sys.stdlib_module_names - {"benchmarks", "mcp_bridge"}:
            # The name of a module that is not installed here, such as fastmcp, is that of its distribution.
            names = {canonicalize_name(owner) for owner in owners.get(module, [module])}
            if distributions.isdisjoint(names):
                missing.append((file.name, module))
    assert missing == []
