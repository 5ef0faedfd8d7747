"""`make bench` installs the extra `bench` alone, so its servers may need nothing else."""

import ast
import json
import os
import subprocess
import sys
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.kits.paths import ROOT

SERVERS = ROOT / "benchmarks" / "servers"
ENVIRONMENT = {"BENCH_HOST": "native", "BENCH_HOOKS": "1", "BENCH_TOOLS": "2"}

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
    """Return the distributions in an installation of `name[extras]`, except unknown ones."""
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
            wanted = canonicalize_name(requirement.name)
            distributions |= list_distributions(wanted, frozenset(requirement.extras), visited)
    return distributions


@pytest.fixture(scope="module")
def absent_modules() -> set[str]:
    installed = list_distributions("mcp-tool-bridge", frozenset({"bench"}), set())
    return {
        module
        for module, owners in packages_distributions().items()
        if not installed & {canonicalize_name(owner) for owner in owners}
    }


@pytest.mark.parametrize("file", sorted(SERVERS.glob("*.yaml")), ids=lambda file: file.stem)
def test_the_extra_installs_what_the_settings_of_a_server_need(
    file: Path, absent_modules: set[str], tmp_path: Path
) -> None:
    environment = os.environ | ENVIRONMENT | {"BENCH_TRAIL": str(tmp_path / "trail.jsonl")}
    command = [sys.executable, "-c", COMMAND, json.dumps(sorted(absent_modules)), "list", str(file)]
    process = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize("file", sorted(SERVERS.glob("*.py")), ids=lambda file: file.stem)
def test_the_extra_installs_what_the_code_of_a_server_imports(file: Path, absent_modules: set[str]) -> None:
    nodes = list(ast.walk(ast.parse(file.read_text())))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    assert {name.partition(".")[0] for name in names} & absent_modules == set()
