"""The SDK's server with every feature (sdk_server.py) on each transport, behind a bridge with the official client."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.client import Client

from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge.testing import connect
from tests.kits.constants import TIMEOUT
from tests.kits.upstream.upstream_kit import Json, build_source, wait_for_state

SDK_SERVER = Path(__file__).with_name("sdk_server.py")
ERAS = ("legacy", "2026-07-28")
"""The modes of the official client."""


@dataclass(frozen=True)
class Way:
    """A transport and an era of the server."""

    transport: str
    era: str

    def __str__(self) -> str:
        return f"{self.transport}-{self.era}"

    @contextlib.contextmanager
    def run_server(self) -> Iterator[Json]:
        """Run the server, if a bridge does not start it; yield its entry in the settings."""
        command = [str(SDK_SERVER), self.transport, self.era]
        if self.transport == "stdio":
            yield {"command": sys.executable, "args": command}
            return
        with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            try:
                base = f"http://127.0.0.1:{int(process.stdout.readline())}"
                is_sse = self.transport == "sse"
                yield {"url": f"{base}/sse", "transport": "sse"} if is_sse else {"url": f"{base}/mcp"}
            finally:
                process.kill()


ASKING_WAYS = [
    Way("stdio", "handshake"), Way("stdio", "dual"), Way("http", "handshake"), Way("http", "stateless"),
    Way("sse", "handshake"),
]  # fmt: skip
"""Ways on which a server can ask questions, and send notifications that belong to no call."""
WAYS = [*ASKING_WAYS, Way("http-stateless", "handshake")]


class Host:
    """The host of a client: it answers questions, and records messages."""

    def __init__(self, name: str = "Ada") -> None:
        self.name = name
        self.asked: list[Any] = []
        self.logged: list[Any] = []

    async def elicit(self, context: Any, params: Any) -> types.ElicitResult:
        """Fill in a form, or open a page."""
        self.asked.append(params)
        content = None if isinstance(params, types.ElicitRequestURLParams) else {"name": self.name}
        return types.ElicitResult(action="accept", content=content)

    async def sample(self, context: Any, params: Any) -> types.CreateMessageResult:
        """Write a message."""
        self.asked.append(params)
        text = types.TextContent(type="text", text=f"Hello from {self.name}")
        return types.CreateMessageResult(role="assistant", content=text, model="m", stop_reason="endTurn")

    async def list_roots(self, context: Any) -> types.ListRootsResult:
        """List the one root."""
        return types.ListRootsResult(roots=[types.Root(uri=f"file:///{self.name}", name=self.name)])

    async def receive_log(self, params: Any) -> None:
        """Keep a log message."""
        self.logged.append(params)

    @property
    def options(self) -> Json:
        """The options of the official client."""
        return {
            "elicitation_callback": self.elicit,
            "sampling_callback": self.sample,
            "sampling_capabilities": types.SamplingCapability(tools=types.SamplingToolsCapability()),
            "list_roots_callback": self.list_roots,
            "logging_callback": self.receive_log,
        }


def build_bridge(entry: Json, folder: Path) -> Bridge:
    """Build a bridge in front of one server, without a prefix."""
    return Bridge(None, [AttachedSource(source=build_source(entry, folder))])


@contextlib.asynccontextmanager
async def connect_to(entry: Json, folder: Path, mode: str, **options: Any) -> AsyncIterator[Client]:
    """Connect the official client to a bridge in front of one server, once the bridge is connected."""
    source = build_source(entry, folder)
    with warnings.catch_warnings():
        # Sampling, roots and logging are deprecated.
        warnings.simplefilter("ignore")
        async with connect(Bridge(None, [AttachedSource(source=source)]), cache=None, mode=mode, **options) as client:
            await wait_for_state(source, "ready")
            yield client


async def call_structured(client: Client, tool: str, arguments: Json | None = None) -> Any:
    """Call a tool and return its structured content."""
    result = await client.call_tool(tool, arguments or {})
    assert not result.is_error, result.content
    return result.structured_content


async def wait_for_names(client: Client, tool: str, are_expected: Callable[[list[str]], bool]) -> None:
    """Wait until a tool shows the expected names. Calls may fail while its server starts again."""
    with anyio.fail_after(TIMEOUT):
        while (result := await client.call_tool(tool, {})).is_error or not are_expected(  # noqa: ASYNC110 - elsewhere
            (result.structured_content or {})["names"]
        ):
            await anyio.sleep(0.02)
