"""The examples in the document of the Tools Protocol, and functions that run them."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any, Dict, List, Protocol, runtime_checkable  # noqa: UP035 as the document has them

import mcp_bridge.xaibo
from tests.kits.amplifier.documents_running import find_names

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
"""Names that the examples use without importing them. The last line has all names of `mcp_bridge.xaibo`."""


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


async def run_example(text: str, **placeholders: Any) -> dict[str, Any]:
    """Run an example with its undefined imports and placeholders. Return its names."""
    text = write_examples(text)
    _, missing = find_names(text)
    assert set(placeholders) <= missing, f"not needed: {set(placeholders) - missing}"
    supplied = {name: IMPORTS[name] for name in missing - set(placeholders)}
    names: dict[str, Any] = {"__name__": "example", **supplied, **placeholders}
    code = compile(text, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    value = eval(code, names)
    if inspect.isawaitable(value):
        await value
    return names
