"""Plans of modules with the resources and notifications that let clients observe them (`observe` in the settings)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any

import anyio
from mcp.client import Client

from mcp_bridge import ToolRegistry
from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._contracts.source import Source
from mcp_bridge._engine.pipeline import Pipeline
from mcp_bridge._integrations.amplifier.sessions.module_sessions import SessionLimits
from mcp_bridge._integrations.amplifier.source import AmplifierSource
from mcp_bridge.testing import connect
from tests.kits.amplifier.amplifier_plans import ServedPlan
from tests.kits.constants import TIMEOUT

LEGACY, STATELESS = "legacy", "2026-07-28"
ERAS = (LEGACY, STATELESS)
STATUS = "amplifier://mine/status"
CONTRIBUTIONS = "amplifier://mine/contributions"


class ObservedPlan(ServedPlan):
    """A source with modules in files and options, next to other sources, in a bridge with hidden `secrets`."""

    def __init__(
        self,
        folder: Path,
        modules: Mapping[str, str],
        *,
        plan: Mapping[str, Any] | None = None,
        limits: SessionLimits | None = None,
        other_sources: Iterable[Source] = (),
        secrets: Iterable[str] = (),
        timeout: float | None = 60.0,
        **options: Any,
    ) -> None:
        super().__init__(folder, modules, limits=limits, **(plan or {}))
        config = self.source._config
        self.source = AmplifierSource(
            "mine", self.source._plan, config=config, directory=folder, limits=limits, host=self.host, **options
        )
        sources = [AttachedSource(source=source) for source in (self.source, *other_sources)]
        registry = ToolRegistry(pipeline=Pipeline(self.source.middleware, timeout=timeout))
        self.bridge = Bridge(registry, sources)
        self.bridge.hide_secrets(secrets)

    @contextlib.asynccontextmanager
    async def connect_clients(self, mode: str, count: int = 2) -> AsyncIterator[list[Client]]:
        """Connect several clients to the bridge during the block."""
        with anyio.fail_after(TIMEOUT):
            async with self.run_bridge(), contextlib.AsyncExitStack() as stack:
                registry = self.bridge.registry
                yield [await stack.enter_async_context(connect(registry, mode=mode)) for _ in range(count)]


async def read_json(client: Client, uri: str, **options: Any) -> Any:
    """Read a URI as a client and return the JSON."""
    content = (await client.read_resource(uri, **options)).contents[0]
    assert content.mime_type == "application/json"
    return json.loads(content.text)


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Return the values in a file of JSON lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def name_session(mode: str, name: str) -> dict[str, Any]:
    """Return the name of a client's session, unless its connection identifies it."""
    return {} if mode == LEGACY else {"meta": {"mcp-bridge/session": name}}
