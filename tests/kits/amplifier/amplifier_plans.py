"""Mount plans with modules in files, served by a bridge to the official client."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client

from mcp_bridge import ToolRegistry
from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._engine.pipeline import Pipeline
from mcp_bridge._integrations.amplifier.hosts import Host
from mcp_bridge._integrations.amplifier.mount_plan import read_plan
from mcp_bridge._integrations.amplifier.sessions.module_sessions import SessionLimits
from mcp_bridge._integrations.amplifier.source import AmplifierSource
from mcp_bridge.testing import connect
from tests.kits.amplifier.amplifier_modules import write_files
from tests.kits.constants import TIMEOUT

BOTH_HOSTS = pytest.mark.parametrize("host", ["native", "core"], indirect=True)
"""Runs a test with both coordinators, the bridge's own and amplifier-core's. The test uses the fixture `host`."""
HEADS = {
    "native": """
from types import SimpleNamespace
from mcp_bridge.amplifier import HookResult, ToolResult
from mcp_bridge.amplifier.testing import MockTool
""",
    "core": """
from types import SimpleNamespace
from amplifier_core import HookResult, MockTool, ToolResult
""",
}
"""The imports of the modules of tests, by host."""


class ServedPlan:
    """A source over modules in files, and the bridge over it."""

    host: Host = "native"

    def __init__(
        self, folder: Path, modules: Mapping[str, str], *, limits: SessionLimits | None = None, **plan: Any
    ) -> None:
        write_files(folder, {f"{name}.py": HEADS[self.host] + text for name, text in modules.items()})
        plan = plan or {"tools": [{"module": name} for name in modules]}
        mount_plan, problems = read_plan(plan)
        assert problems == []
        self.source = AmplifierSource("mine", mount_plan, config=plan, directory=folder, limits=limits, host=self.host)
        self.bridge = Bridge(
            ToolRegistry(pipeline=Pipeline(self.source.middleware)), sources=[AttachedSource(source=self.source)]
        )

    @property
    def coordinator(self) -> Any:
        """The coordinator of the modules."""
        first = self.source.sessions.first
        assert first is not None
        return first.session.coordinator

    @property
    def problems(self) -> list[str]:
        """The problems of mounting and publishing."""
        return self.bridge.problems.get("mine", [])

    def connect(self, **options: Any) -> contextlib.AbstractAsyncContextManager[Client]:
        """Connect the official client during the block."""
        return connect(self.bridge, **options)

    @contextlib.asynccontextmanager
    async def run_bridge(self) -> AsyncIterator[None]:
        """Run the bridge during the block, without a client."""
        with anyio.fail_after(TIMEOUT):
            async with self.bridge.run_sources():
                await self.bridge.wait_until_started()
                yield
