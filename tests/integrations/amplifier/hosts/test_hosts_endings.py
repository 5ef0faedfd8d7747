"""Ends of interpreters with amplifier-core, and runs of pytest, are free of its effects."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import mcp_bridge
from tests.kits.hosts.hosts_kit import TOOL, write_package
from tests.kits.paths import ROOT

LAST_MOMENT = """

import os
import sys

import amplifier_core


class Finalized:
    def __del__(self, write=os.write):
        write(2, b"finalized\\n")


sys.finalized = Finalized()


async def last(coordinator):
    hooks = amplifier_core.HookRegistry()

    async def hears(event, data):
        return amplifier_core.HookResult(action="continue")

    hooks.register("session:end", hears)
    await hooks.emit("session:end", {})


mount_tool = mount


async def mount(coordinator, config=None):
    await mount_tool(coordinator, config)

    async def end():
        await last(coordinator)

    return end
"""
"""A module that makes amplifier-core itself emit when everything ends, and shows whether the interpreter is finalized.

An interpreter that is finalized right after an emit may crash: one run in two on Python 3.11.
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """A plan with such a module."""
    write_package(tmp_path, "tool-greet", TOOL + LAST_MOMENT)
    file = tmp_path / "plan.yaml"
    file.write_text("tools: [{module: tool-greet, source: amplifier-module-tool-greet}]\n")
    return file


@pytest.mark.parametrize(
    "args",
    [["call", "greet", "who=you", "--file"], ["validate"], ["serve"]],
    ids=["call", "validate", "serve until EOF"],
)
def test_no_command_crashes_at_its_end(args: list[str], plan: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "mcp_bridge", *args, plan.name],
        cwd=plan.parent, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert not [line for line in process.stderr.splitlines() if "PyGILState" in line or "Fatal Python error" in line]
    assert "finalized" not in process.stderr


def test_pytest_runs_with_amplifier_core_without_its_plugin(tmp_path: Path) -> None:
    root = ROOT
    (tmp_path / "test_one.py").write_text("def test_one(): pass\n")
    command = [sys.executable, "-m", "pytest", "-c", str(root / "pyproject.toml"), "--rootdir", str(tmp_path)]
    process = subprocess.run(
        [*command, "-p", "no:randomly", "test_one.py", "-v"],
        cwd=tmp_path, env={**os.environ, "PYTEST_ADDOPTS": ""}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (process.returncode, process.stderr) == (0, ""), process.stdout
    assert "1 passed" in process.stdout


def list_imports(file: Path) -> set[str]:
    """Return the imported top-level packages of a file."""
    imports: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            imports |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            imports.add((node.module or "").partition(".")[0])
    return imports


def test_one_file_imports_amplifier_core_and_that_file_is_imported_late() -> None:
    folder = Path(mcp_bridge.__file__).parent
    files = [file for file in folder.rglob("*.py") if "amplifier_core" in list_imports(file)]
    assert [file.relative_to(folder).as_posix() for file in files] == ["_integrations/amplifier/core.py"]
    code = (
        "import sys, pkgutil, importlib, mcp_bridge.amplifier, mcp_bridge._integrations.amplifier.source\n"
        "for package in (mcp_bridge.amplifier, mcp_bridge._integrations.amplifier.source):\n"
        "    for one in pkgutil.iter_modules(package.__path__, package.__name__ + '.'):\n"
        "        if not one.name.endswith('.core'): importlib.import_module(one.name)\n"
        "print([name for name in sys.modules if name.startswith('amplifier_core')])"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert process.stdout == "[]\n", process.stderr
