"""Runs an example of a document with its imports and placeholders only."""

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
    """Return the used names of a text, and the undefined ones."""
    module = symtable.symtable(text, "example", "exec")
    definitions = {symbol.get_name() for symbol in module.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    uses = {
        symbol.get_name()
        for table in _tables(module)
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (symbol.is_global() or table is module)
    }
    return uses, uses - definitions - set(vars(builtins))


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)


def supplied(text: str, placeholders: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names for running a text."""
    uses, names = undefined(text)
    assert set(placeholders) <= uses, f"not needed: {set(placeholders) - uses}"
    missing = names - set(placeholders) - set(IMPORTS)
    assert not missing, f"the example leaves more undefined: {missing}"
    return {**{name: IMPORTS[name] for name in names - set(placeholders)}, **placeholders}


async def run(example: Example, **placeholders: Any) -> dict[str, Any]:
    """Run an example; return its names, and the supplied ones."""
    text = written(example)
    names = {"__name__": "example", **supplied(text, placeholders)}
    code = compile(text, example.title, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    coroutine = eval(code, names)
    if inspect.isawaitable(coroutine):
        await coroutine
    return names


async def run_body(example: Example, **placeholders: Any) -> Any:
    """Run an example from inside a function; return its result, or else its names."""
    text = written(example)
    body = "".join(f"    {line}\n" for line in text.splitlines())
    arguments = ", ".join(placeholders)
    names = {"__name__": "example", **supplied(text, placeholders)}
    exec(compile(f"async def example({arguments}):\n{body}    return locals()\n", example.title, "exec"), names)
    return await names["example"](**placeholders)


async def values(example: Example, **placeholders: Any) -> list[Any]:
    """Return the value of each expression in an example."""
    names = await run(example, **placeholders)
    expressions = [node for node in ast.parse(written(example)).body if isinstance(node, ast.Expr)]
    return [eval(compile(ast.Expression(node.value), example.title, "eval"), names) for node in expressions]


async def run_tests(names: Mapping[str, Any]) -> int:
    """Run the tests of an example; return their number."""
    tests = [value for name, value in names.items() if name.startswith("test_")]
    for test in tests:
        await test()
    return len(tests)
