"""The house rules that can be counted: sizes, docstrings, who imports whom."""

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


def sizes() -> dict[str, int]:
    """The lines of each function, from its `def` to its end."""
    return {
        f"{file}:{node.lineno} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for file, tree in FILES.items()
        for node in ast.walk(tree)
        if isinstance(node, Function)
    }


def undocumented(file: str, node: ast.AST, path: str = "") -> Iterator[str]:
    """Public functions and classes, and public methods of public classes, that say nothing about themselves."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, Function | ast.ClassDef) or child.name.startswith("_"):
            continue
        decorators = {getattr(item, "id", getattr(item, "attr", "")) for item in child.decorator_list}
        if not ast.get_docstring(child) and "overload" not in decorators:
            yield f"{file}:{child.lineno} {path}{child.name}"
        if isinstance(child, ast.ClassDef):
            yield from undocumented(file, child, f"{path}{child.name}.")


def test_functions_fit_on_a_screen() -> None:
    found = sizes()
    large = {name: lines for name, lines in found.items() if lines > 30}
    huge = {name: lines for name, lines in found.items() if lines > 50}
    assert len(found) > 200
    assert len(large) <= len(found) * 0.10, large
    assert len(huge) <= len(found) * 0.02, huge


def test_files_are_read_in_a_sitting() -> None:
    lines = {file: len((PACKAGE / file).read_text().splitlines()) for file in FILES}
    assert {file: count for file, count in lines.items() if count > 400} == {}
    large = {file: count for file, count in lines.items() if count > 300}
    assert len(large) <= len(lines) * 0.10, large


def test_every_module_says_what_it_is_for() -> None:
    assert [file for file, tree in FILES.items() if not ast.get_docstring(tree) and tree.body] == []


def test_everything_public_says_what_it_does() -> None:
    assert [line for file, tree in FILES.items() for line in undocumented(file, tree)] == []


def test_rooms_import_only_from_floors_below() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    ran = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_core_looks_for_no_undeclared_member_on_a_source() -> None:
    probes = [
        f"{file}:{node.lineno} {node.args[1].value}"
        for file, tree in FILES.items()
        if file.startswith("app/") or file == "isolation/source.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr")
        if isinstance(node.args[1], ast.Constant)
    ]
    assert probes == [], "declare the member in a protocol of contracts/extension.py"
