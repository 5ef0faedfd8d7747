"""Rules of the architecture that can be counted: size budgets, docstrings, imports."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import mcp_bridge

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


def find_undocumented(file: str, node: ast.AST, path: str = "") -> Iterator[str]:
    """Public functions and classes, and public methods of public classes, without a docstring."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, Function | ast.ClassDef) or child.name.startswith("_"):
            continue
        decorators = {getattr(item, "id", getattr(item, "attr", "")) for item in child.decorator_list}
        if not ast.get_docstring(child) and "overload" not in decorators:
            yield f"{file}:{child.lineno} {path}{child.name}"
        if isinstance(child, ast.ClassDef):
            yield from find_undocumented(file, child, f"{path}{child.name}.")


def test_functions_stay_within_their_line_budget() -> None:
    functions = count_lines()
    large = {name: lines for name, lines in functions.items() if lines > 30}
    huge = {name: lines for name, lines in functions.items() if lines > 50}
    assert len(functions) > 200
    assert len(large) <= len(functions) * 0.10, large
    assert len(huge) <= len(functions) * 0.02, huge


def test_files_stay_within_their_line_budget() -> None:
    files = {file: len((PACKAGE / file).read_text().splitlines()) for file in FILES}
    large = {file: lines for file, lines in files.items() if lines > 300}
    assert {file: lines for file, lines in large.items() if lines > 400} == {}
    assert len(large) <= len(files) * 0.10, large


def test_every_module_has_a_docstring() -> None:
    assert [file for file, tree in FILES.items() if not ast.get_docstring(tree) and tree.body] == []


def test_everything_public_has_a_docstring() -> None:
    assert [line for file, tree in FILES.items() for line in find_undocumented(file, tree)] == []


def test_imports_follow_the_layers() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_core_uses_only_declared_members_of_a_source() -> None:
    probes = [
        f"{file}:{node.lineno} {node.args[1].value}"
        for file, tree in FILES.items()
        if file.startswith("app/") or file == "isolation/source.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr")
        if isinstance(node.args[1], ast.Constant)
    ]
    assert probes == [], "declare the member in a protocol of contracts/extension.py"
