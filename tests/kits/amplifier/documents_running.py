"""Runs an example of a document with imports and the placeholders that it leaves undefined, and with nothing else."""

from __future__ import annotations

import ast
import builtins
import inspect
import logging
import os
import symtable
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pytest
from pydantic import BaseModel

import mcp_bridge.amplifier
from mcp_bridge.amplifier import testing
from tests.kits.amplifier.documents_reading import Example

IMPORTS: dict[str, Any] = {
    "Any": Any,
    "BaseModel": BaseModel,
    "Callable": Callable,
    "MockContextManager": testing.MockContextManager,
    "MockProvider": testing.MockProvider,
    "Path": Path,
    "Protocol": Protocol,
    "logger": logging.getLogger("documents"),
    "os": os,
    "pytest": pytest,
    "runtime_checkable": runtime_checkable,
    **{name: getattr(mcp_bridge.amplifier, name) for name in mcp_bridge.amplifier.__all__},
}
"""What the documents use and do not import. The last line is what a module's author imports from us."""

WRITTEN = {
    "amplifier_core": "mcp_bridge.amplifier",
    "pytest.mark.asyncio": "pytest.mark.anyio",
    '"category"': '"tools"',
    "# After use": 'await mock_tool.execute({"path": "a.txt"})',
    "last_input == {...}": 'last_input == {"path": "a.txt"}',
    "orchestrator.execute(...)": 'orchestrator.execute("Hi", MockContextManager(), {}, {}, HookRegistry())',
}
"""What is something else here than in the documents: the package, the runner, words for the reader."""


def written(example: Example) -> str:
    """The text of an example as it is run."""
    text = example.text
    for theirs, ours in WRITTEN.items():
        text = text.replace(theirs, ours)
    return text


def undefined(text: str) -> tuple[set[str], set[str]]:
    """The names that a text uses, and those of them that it neither defines nor imports."""
    module = symtable.symtable(text, "example", "exec")
    defined = {symbol.get_name() for symbol in module.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    used = {
        symbol.get_name()
        for table in _tables(module)
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (symbol.is_global() or table is module)
    }
    return used, used - defined - set(vars(builtins))


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)


def supplied(text: str, placeholders: Mapping[str, Any]) -> dict[str, Any]:
    """The names that a text is run with."""
    used, names = undefined(text)
    assert set(placeholders) <= used, f"not needed: {set(placeholders) - used}"
    missing = names - set(placeholders) - set(IMPORTS)
    assert not missing, f"the example leaves more undefined: {missing}"
    return {**{name: IMPORTS[name] for name in names - set(placeholders)}, **placeholders}


async def run(example: Example, **placeholders: Any) -> dict[str, Any]:
    """Run an example; the names that it has made, and those it was given."""
    text = written(example)
    names = {"__name__": "example", **supplied(text, placeholders)}
    code = compile(text, example.title, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    done = eval(code, names)
    if inspect.isawaitable(done):
        await done
    return names


async def run_body(example: Example, **placeholders: Any) -> Any:
    """Run an example that is the inside of a function; what it returns, else the names of it."""
    text = written(example)
    body = "".join(f"    {line}\n" for line in text.splitlines())
    arguments = ", ".join(placeholders)
    names = {"__name__": "example", **supplied(text, placeholders)}
    exec(compile(f"async def example({arguments}):\n{body}    return locals()\n", example.title, "exec"), names)
    return await names["example"](**placeholders)


async def values(example: Example, **placeholders: Any) -> list[Any]:
    """What each expression of an example comes to."""
    names = await run(example, **placeholders)
    found = [node for node in ast.parse(written(example)).body if isinstance(node, ast.Expr)]
    return [eval(compile(ast.Expression(node.value), example.title, "eval"), names) for node in found]


async def run_tests(names: Mapping[str, Any]) -> int:
    """Run the tests that an example has defined; how many there are."""
    tests = [value for name, value in names.items() if name.startswith("test_")]
    for test in tests:
        await test()
    return len(tests)
