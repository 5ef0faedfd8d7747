"""Serves the examples that FastMCP and the MCP SDK ship or document, and compares them with the packages' own clients.

    python -m tests.kits.frameworks.server_examples CLONE [CLONE ...] [--only TEXT]

A clone is a checkout of PrefectHQ/fastmcp or modelcontextprotocol/python-sdk. Every Python file below examples/ and
docs_src/, and every Python block of the README and the pages below docs/, that makes a server at module level is an
example. What the bridge lists, and what each tool, resource and prompt returns, must be what the package's own client
gets in either era. Examples that need other packages, keys or a network are counted apart. Prints a line for each
example that is not the same, and the counts.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import contextlib
import io
import logging
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._integrations.frameworks.discovery import is_server
from mcp_bridge._runtime.python_import import import_file
from mcp_bridge._sources.python.source import PythonSource
from mcp_bridge.testing import connect
from tests.kits.frameworks.example_clients import ANSWERS, observe, open_own_client
from tests.kits.frameworks.example_files import Example, find_examples, needs_more

SECONDS = 60
USUAL = ("mcp", "server", "app")


async def try_example(example: Example, folder: Path) -> None:
    """Set the outcome of an example, and the details of differences."""
    # Each copy has a separate state.
    paths = [folder / name / "server.py" for name in ("bridge", "legacy", "auto")]
    for path in paths:
        path.parent.mkdir()
        path.write_text(example.text, "utf-8")
    try:
        servers = {path.parent.name: find_server(import_file(path)) for path in paths[1:]}
    except (Exception, SystemExit) as error:
        example.outcome, example.details = "cannot be imported alone", [str(error)[:150]]
        return
    if None in servers.values():
        example.outcome = "has several servers, or none"
        return
    expected = []
    try:
        for mode, server in servers.items():
            async with asyncio.timeout(SECONDS), open_own_client(server, mode) as client:
                expected.append(await observe(client))
    except Exception as error:
        example.outcome, example.details = "does not work with its own client", [repr(error)[:150]]
        return
    example.details = await list_differences(paths[0], *expected)
    example.outcome = "different" if example.details else "same"


def find_server(module: ModuleType) -> Any:
    """Return the server with a usual name, or the only one."""
    servers = {name: value for name, value in vars(module).items() if is_server(value)}
    name = next((name for name in USUAL if name in servers), None)
    return servers[name] if name else next(iter(servers.values())) if len(servers) == 1 else None


async def list_differences(path: Path, older: dict[str, Any], newer: dict[str, Any]) -> list[str]:
    bridge = Bridge(sources=[AttachedSource(source=PythonSource("server", path=path))])
    try:
        async with asyncio.timeout(SECONDS), connect(bridge, mode="legacy", **ANSWERS) as client:
            result = await observe(client)
    except Exception as error:
        return [repr(error)[:300]]
    problems = [line for lines in bridge.problems.values() for line in lines]
    keys = [key for key in {**older, **result} if result.get(key) not in (older.get(key), newer.get(key))]
    return [*problems, *(f"{key}: {str(older.get(key))[-150:]} | {str(result.get(key))[-150:]}" for key in keys)]


def runs_at_import(text: str) -> bool:
    """Whether the import of a file starts a server or something else without an end."""
    calls = [node.value for node in ast.parse(text).body if isinstance(node, ast.Expr)]
    return any(isinstance(call, ast.Call) and ".run" in ast.unparse(call.func) for call in calls)


def check_example(example: Example) -> None:
    """Set the outcome of an example."""
    try:
        waits = runs_at_import(example.text)
    except SyntaxError:
        example.outcome = "is a fragment"
        return
    if waits:
        example.outcome = "runs when it is imported"
    elif needs_more(example):
        example.outcome = "needs a network, a program or tasks"
    else:
        quiet = contextlib.redirect_stderr(io.StringIO())
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), quiet:
            asyncio.run(try_example(example, Path(folder)))


def main() -> None:
    """Try all examples of the clones."""
    parser = argparse.ArgumentParser(description="Compare the examples of FastMCP and the SDK with their own clients.")
    parser.add_argument("clones", nargs="+", type=Path)
    parser.add_argument("--only", default="", help="a text that the paths of the examples must contain")
    options = parser.parse_args()
    sys.argv[1:] = []
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    counts: Counter[tuple[str, str, str]] = Counter()
    for clone in map(Path.resolve, options.clones):
        for example in find_examples(clone):
            if options.only not in example.place:
                continue
            check_example(example)
            counts[clone.name, example.place.partition("/")[0].partition("#")[0], example.outcome] += 1
            if example.outcome != "same":
                print(f"{example.outcome}: {example.place}", *example.details[:6], sep="\n    ", flush=True)
    for (clone_name, section, outcome), count in sorted(counts.items()):
        print(f"{clone_name} {section}: {count} {outcome}")


if __name__ == "__main__":
    main()
