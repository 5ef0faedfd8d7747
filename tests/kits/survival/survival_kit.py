"""For survival tests: the ways to connect to a server process, and server processes with the survival tools.

A survival test makes a tool or a client misbehave, and checks that the server goes on: a call of the tool `neighbour`,
which is in flight meanwhile, must succeed.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.client.raw_client import Json
from tests.client.server_process import ClientProfile, HttpServerProcess, StdioServerProcess, Way

SURVIVAL_TOOLS = Path(__file__).with_name("survival_tools.py")
WAYS = [Way(transport, stateless) for transport in ("stdio", "http") for stateless in (False, True)]
FIRST_WAY = Way("stdio", stateless=True)
"""The way of tests whose subject does not depend on the transport or the era."""
SECOND_WAY = Way("http", stateless=False)
"""A way with another transport and another era."""
ON_ONE_WAY = pytest.mark.parametrize("way", [FIRST_WAY], ids=str)
ON_BOTH_WAYS = pytest.mark.parametrize("way", [FIRST_WAY, SECOND_WAY], ids=str)


def on_one_way(name: str, rows: Iterable[Any], smoke: Iterable[Any] = ()) -> pytest.MarkDecorator:
    """Run each row of a table on one way, and the few rows of the smoke test on the other."""
    cases = [*((FIRST_WAY, row) for row in rows), *((SECOND_WAY, row) for row in smoke)]
    return pytest.mark.parametrize(("way", name), cases, ids=[f"{way}-{ascii(row)[1:-1]}" for way, row in cases])


@contextlib.contextmanager
def run_server(
    way: Way,
    folder: Path,
    tools: Path | str = "",
    settings: Json | None = None,
    env: Mapping[str, str] | None = None,
    options: tuple[str, ...] = (),
    profile: ClientProfile | None = None,
) -> Iterator[Any]:
    """Run a server process with the survival tools and those of a file (a path, or its text); it ends with the block.

    `settings` are those of the settings file. The survival tools are added to its sources, and the timeout of
    `neighbour` to its limits.
    """
    (folder / "survival_tools.py").write_text(SURVIVAL_TOOLS.read_text())
    text = tools.read_text() if isinstance(tools, Path) else tools
    sources = []
    if text:
        (folder / "own_tools.py").write_text(text)
        sources = [{"type": "python", "path": "own_tools.py"}]
    settings = dict(settings or {})
    limits = settings.get("limits", {})
    settings["limits"] = {**limits, "tools": {"neighbour": {"timeout": 3600}, **limits.get("tools", {})}}
    settings["sources"] = [{"type": "python", "path": "survival_tools.py"}, *settings.get("sources", sources)]
    (folder / "mcp-bridge.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "mcp_bridge", "serve", "mcp-bridge.json", *options]
    server_class: type[HttpServerProcess | StdioServerProcess] = StdioServerProcess
    if way.transport == "http":
        command += ["--http", "127.0.0.1:0"]
        server_class = HttpServerProcess
    # Coverage of the server process would slow it down, and its data would be lost when it is killed.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE")}
    environment |= env or {}
    server = server_class(command, way, profile or ClientProfile(), env=environment, folder=folder)
    try:
        yield server
    finally:
        server.close()
