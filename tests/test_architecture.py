"""Countable rules of the architecture: size budgets, docstrings, imports."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import mcp_bridge
import mcp_bridge.export
import mcp_bridge.testing
import mcp_bridge.tool_use

PACKAGE = Path(mcp_bridge.__file__).parent
FILES = {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def count_lines() -> dict[str, int]:
    """The number of lines of each function, from its `def` to its last line."""
    return {
        f"{file}:{node.lineno} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for file, tree in FILES.items()
        for node in ast.walk(tree)
        if isinstance(node, Function)
    }


def find_undocumented(name: str, item: Any) -> Iterator[str]:
    """Yield public names, and public methods of public classes, without a docstring."""
    if (inspect.isclass(item) or inspect.isfunction(item)) and not item.__doc__:
        yield name
    is_own_class = inspect.isclass(item) and item.__module__.startswith("mcp_bridge")
    for member, value in vars(item).items() if is_own_class else ():
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if not member.startswith("_") and inspect.isfunction(function) and not function.__doc__:
            yield f"{name}.{member}"


def test_functions_stay_within_their_line_budget() -> None:
    functions = count_lines()
    large = {name: lines for name, lines in functions.items() if lines > 40}
    huge = {name: lines for name, lines in functions.items() if lines > 50}
    assert len(functions) > 200
    assert len(large) <= len(functions) * 0.10, large
    assert len(huge) <= len(functions) * 0.04, huge


def test_files_stay_within_their_line_budget() -> None:
    files = {file: len((PACKAGE / file).read_text().splitlines()) for file in FILES}
    large = {file: lines for file, lines in files.items() if lines > 300}
    assert {file: lines for file, lines in large.items() if lines > 500} == {}
    assert len(large) <= len(files) * 0.10, large


def test_every_module_has_a_docstring() -> None:
    assert [file for file, tree in FILES.items() if not ast.get_docstring(tree) and tree.body] == []


def test_every_class_has_a_docstring() -> None:
    classes = [
        (file, node)
        for file, tree in FILES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert [f"{file}:{node.lineno} {node.name}" for file, node in classes if not ast.get_docstring(node)] == []


@pytest.mark.parametrize("package", [mcp_bridge, mcp_bridge.tool_use, mcp_bridge.export, mcp_bridge.testing])
def test_the_public_api_has_docstrings(package: ModuleType) -> None:
    names = getattr(package, "__all__", ["connect"])
    assert [line for name in names for line in find_undocumented(name, getattr(package, name))] == []


def test_imports_follow_the_layers() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    process = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr


def test_the_core_uses_only_declared_members_of_a_source() -> None:
    probes = [
        f"{file}:{node.lineno} {node.args[1].value}"
        for file, tree in FILES.items()
        if file.startswith("_app/") or file == "_isolation/source.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr")
        if isinstance(node.args[1], ast.Constant)
    ]
    assert probes == [], "declare the member in Source or Policy"


def test_only_the_platform_package_knows_the_system() -> None:
    """The tables of desktop clients name the systems as data, and ask no function for the current one."""
    attributes = {("sys", "platform"), ("os", "name"), ("os", "uname")}
    modules = {"fcntl", "msvcrt", "termios", "tty", "resource", "pwd", "grp", "winreg", "ctypes", "platform"}
    exempt = ("_runtime/platform/", "_runtime/kernel_sandbox/", "_runtime/sandbox/", "_runtime/egress/")
    exempt += ("_runtime/container/",)
    problems = []
    for file, tree in FILES.items():
        # Sandboxes and containers are features of some systems.
        if file.startswith(exempt):
            continue
        for node in ast.walk(tree):
            match node:
                case ast.Attribute(value=ast.Name(id=owner), attr=name) if (owner, name) in attributes:
                    problems.append(f"{file}:{node.lineno} {owner}.{name}")
                case ast.Import(names=names) if modules & {alias.name for alias in names}:
                    problems.append(f"{file}:{node.lineno} import {names[0].name}")
                case ast.Call(
                    func=ast.Name(id="hasattr" | "getattr"), args=[ast.Name(id="os" | "signal" | "socket"), *_]
                ):
                    problems.append(f"{file}:{node.lineno} hasattr")
    assert problems == [], f"ask mcp_bridge._runtime.platform: {problems}"
