"""A pytest plugin for FastMCP's own test suite, which fastmcp_suite.py runs.

FastMCP's tests connect FastMCP's client to a server object in the same process. The plugin replaces this connection:
the client connects to a bridge, and the bridge connects to the server object. So the tests show whether a client can
tell the bridge from the server. The bridge opens the server with the same class (`FastMCPTransport`), which must then
connect directly; OPENED_BY_BRIDGE distinguishes the two cases.

The plugin appends a line with the outcome and the name of each test with such a connection to the file named by
FASTMCP_REPORT. pytest loads it as a top-level module, because FastMCP's tests have a package `tests` too.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastmcp.client.transports.base import TransportOptions
from fastmcp.client.transports.memory import FastMCPTransport

from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._contracts.source import Offer, Publish, Source
from mcp_bridge._integrations.frameworks.discovery import DiscoveredTools
from mcp_bridge._integrations.frameworks.toolboxes import OPEN_TIMEOUT, OpenToolboxes, publish_toolboxes
from mcp_bridge._transports.memory import connect

OPENED_BY_BRIDGE = ContextVar("in_bridge", default=False)
"""Whether the current task is the bridge opening the server, and not a client of a test."""
HAS_REACHED_SERVER = pytest.StashKey[bool]()
connect_directly = FastMCPTransport.connect_session


class ServerSource(Source):
    """A source with everything that a server object offers."""

    name = "server"

    def __init__(self, server: Any) -> None:
        self._server = server

    async def run(self, publish: Publish) -> None:
        """Publish the tools, resources and prompts of the server."""
        discovered = DiscoveredTools()
        discovered.add("server", self._server)

        def make_offer(toolbox: OpenToolboxes) -> Offer:
            tools = [entry for _, entry in toolbox.tools]
            return toolbox.add_to(Offer(tools=tools, problems=toolbox.problems))

        await publish_toolboxes(discovered.toolboxes, OPEN_TIMEOUT, make_offer, publish)


@asynccontextmanager
async def connect_through_bridge(server: Any, options: TransportOptions, **session: Any) -> AsyncIterator[Any]:
    """Yield the client session of a bridge in front of the server."""
    failures: list[Exception] = []
    bridge = Bridge(sources=[AttachedSource(source=ServerSource(server))])
    token = OPENED_BY_BRIDGE.set(True)
    async with bridge.run_sources(), anyio.create_task_group() as tasks:
        await bridge.wait_until_started()
        await tasks.start(bridge.endpoint.run)
        async with connect(bridge.endpoint) as (read, write):
            OPENED_BY_BRIDGE.reset(token)
            async with options.session_class(read_stream=read, write_stream=write, **session) as client_session:
                try:
                    yield client_session
                except Exception as error:
                    # An exception group would hide the error from the test.
                    failures.append(error)
        tasks.cancel_scope.cancel()
    if failures:
        raise failures[0]


@pytest.fixture(autouse=True)
def connect_through_the_bridge(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients of this test reach servers through the bridge."""

    def connect_session(transport: Any, *, transport_options: TransportOptions | None = None, **session: Any) -> Any:
        request.node.stash[HAS_REACHED_SERVER] = True
        if OPENED_BY_BRIDGE.get():
            return connect_directly(transport, transport_options=transport_options, **session)
        return connect_through_bridge(transport.server, transport_options or TransportOptions(), **session)

    monkeypatch.setattr(FastMCPTransport, "connect_session", connect_session)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Add to the report of a test whether it has connected to a server."""
    outcome = yield
    outcome.get_result().user_properties.append(("reached", item.stash.get(HAS_REACHED_SERVER, False)))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write the outcome of a test with a server. The main process does it, also for workers of pytest-xdist."""
    has_outcome = report.when == "call" or report.failed
    if has_outcome and ("reached", True) in report.user_properties and "PYTEST_XDIST_WORKER" not in os.environ:
        with Path(os.environ["FASTMCP_REPORT"]).open("a", encoding="utf-8") as file:
            file.write(f"{report.outcome} {report.nodeid}\n")
