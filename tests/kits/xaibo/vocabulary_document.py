"""The examples in the document of the Tools Protocol, and functions that run them."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import symtable
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Dict, List, Protocol, runtime_checkable  # noqa: UP035 as the document has them

import mcp_bridge.xaibo

DOCUMENT = Path(__file__).parent / "documents" / "tools_protocol.txt"
_CODE = re.compile(
    r"@\w+$|# .+|class \w+.*:$|(async )?def .+:$|(from [\w.]+ )?import \w.*|(if|for) .+:$|assert .+|[\w.]+ = .+"
)
_IMPORT = re.compile(r"^from xaibo\.core\.(models|protocols)\.\w+ import", re.MULTILINE)
IMPORTS: dict[str, Any] = {
    "Any": Any,
    "Dict": Dict,  # noqa: UP006
    "List": List,  # noqa: UP006
    "Protocol": Protocol,
    "runtime_checkable": runtime_checkable,
    **{name: getattr(mcp_bridge.xaibo, name) for name in mcp_bridge.xaibo.__all__},
}
"""What the examples use and do not import. The last line is what a reader imports from us."""


def list_examples() -> list[str]:
    """Return every example, in the order of the document."""
    result: list[str] = []
    within = after_code = False
    for line in DOCUMENT.read_text("utf-8").splitlines():
        if line and not line.startswith((" ", ")", "]", "}", "else:")):
            within = _CODE.fullmatch(line) is not None
            if within and not after_code:
                result.append("")
            after_code = within
        if within:
            result[-1] += f"{line}\n"
    return [text.rstrip("\n") + "\n" for text in result]


def get_example(beginning: str) -> str:
    """Return the example with a line that begins with this text."""
    return next(text for text in list_examples() if any(line.startswith(beginning) for line in text.splitlines()))


def write_examples(text: str) -> str:
    """Return an example with changed import lines."""
    return _IMPORT.sub("from mcp_bridge.xaibo import", text)


async def run(text: str, **placeholders: Any) -> dict[str, Any]:
    """Run an example with its undefined imports and placeholders. Return its names."""
    text = write_examples(text)
    missing = _undefined(text)
    assert set(placeholders) <= missing, f"not needed: {set(placeholders) - missing}"
    supplied = {name: IMPORTS[name] for name in missing - set(placeholders)}
    names: dict[str, Any] = {"__name__": "example", **supplied, **placeholders}
    code = compile(text, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    value = eval(code, names)
    if inspect.isawaitable(value):
        await value
    return names


def _undefined(text: str) -> set[str]:
    """Return the undefined names in a text."""
    module = symtable.symtable(text, "example", "exec")
    defined = {symbol.get_name() for symbol in module.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    used = {
        symbol.get_name()
        for table in _tables(module)
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (symbol.is_global() or table is module)
    }
    return used - defined - set(vars(builtins))


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)
