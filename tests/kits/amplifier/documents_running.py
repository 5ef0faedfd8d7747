"""Runs an example of a document.

Most examples use names that they do not define: imports that the document leaves out (`IMPORTS`), and placeholders,
such as a `coordinator`, which the caller passes. A name that is neither, and a placeholder that the example does not
use, fail the test, so the tests notice a change of the documents.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import logging
import os
import re
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
"""Names that the documents use without importing them. The last line has all names of `mcp_bridge.amplifier`."""

REPLACEMENTS = {
    "amplifier_core": "mcp_bridge.amplifier",
    "pytest.mark.asyncio": "pytest.mark.anyio",
    '"category"': '"tools"',
    "# After use": 'await mock_tool.execute({"path": "a.txt"})',
    "last_input == {...}": 'last_input == {"path": "a.txt"}',
    "orchestrator.execute(...)": 'orchestrator.execute("Hi", MockContextManager(), {}, {}, HookRegistry())',
}
"""Texts of the documents, and their replacements: names of this package, our test runner, code for an ellipsis."""


def replace_placeholders(example: Example) -> str:
    """Return the text of an example with `REPLACEMENTS`."""
    text = example.text
    for original, replacement in REPLACEMENTS.items():
        text = text.replace(original, replacement)
    return text


def find_names(text: str) -> tuple[set[str], set[str]]:
    """Return the used names of a text, and the undefined ones."""
    # Python 3.14 makes no symbol table for `await` outside of functions. The names are the same without it.
    module = symtable.symtable(re.sub(r"\b(?:async|await) ", "", text), "example", "exec")
    definitions = {symbol.get_name() for symbol in module.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    uses = {
        symbol.get_name()
        for table in _list_symbol_tables(module)
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (symbol.is_global() or table is module)
    }
    # Python 3.14 makes this name for annotations in blocks such as `if`.
    uses.discard("__conditional_annotations__")
    return uses, uses - definitions - set(vars(builtins))


def _list_symbol_tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _list_symbol_tables(child)


def choose_names(text: str, placeholders: Mapping[str, Any]) -> dict[str, Any]:
    """Return the global names for running a text: the placeholders, and the imports that it needs."""
    uses, names = find_names(text)
    assert set(placeholders) <= uses, f"not needed: {set(placeholders) - uses}"
    missing = names - set(placeholders) - set(IMPORTS)
    assert not missing, f"the example leaves more undefined: {missing}"
    return {**{name: IMPORTS[name] for name in names - set(placeholders)}, **placeholders}


async def run_example(example: Example, **placeholders: Any) -> dict[str, Any]:
    """Run an example as a module; return its global names."""
    text = replace_placeholders(example)
    names = {"__name__": "example", **choose_names(text, placeholders)}
    code = compile(text, example.title, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    coroutine = eval(code, names)
    if inspect.isawaitable(coroutine):
        await coroutine
    return names


async def run_example_in_function(example: Example, **placeholders: Any) -> Any:
    """Run an example as the body of a function; return its result, or its local names if it returns nothing."""
    text = replace_placeholders(example)
    body = "".join(f"    {line}\n" for line in text.splitlines())
    arguments = ", ".join(placeholders)
    names = {"__name__": "example", **choose_names(text, placeholders)}
    exec(compile(f"async def example({arguments}):\n{body}    return locals()\n", example.title, "exec"), names)
    return await names["example"](**placeholders)


async def evaluate_expressions(example: Example, **placeholders: Any) -> list[Any]:
    """Run an example; return the value of each statement that is an expression."""
    names = await run_example(example, **placeholders)
    expressions = [node for node in ast.parse(replace_placeholders(example)).body if isinstance(node, ast.Expr)]
    return [eval(compile(ast.Expression(node.value), example.title, "eval"), names) for node in expressions]


async def run_example_tests(names: Mapping[str, Any]) -> int:
    """Run the tests of an example; return their number."""
    tests = [value for name, value in names.items() if name.startswith("test_")]
    for test in tests:
        await test()
    return len(tests)
