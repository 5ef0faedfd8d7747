"""Raw JSON-RPC over two descriptors, with `stdio.serve` in this process or a real server process behind them."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from mcp_bridge._app.bridge import Bridge
from mcp_bridge._app.serve import to_bridge
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._runtime.stdio_descriptors import Descriptor, StdioPipes
from mcp_bridge._transports import stdio
from tests.kits.constants import CLIENT_INFO, ENVELOPE, HANDSHAKE, TIMEOUT


class Talk:
    """A client that takes nothing for granted: it writes bytes, and every line it reads must be a message.

    `stateless` puts the `_meta` of that era into every request. `heard` has everything read so far.
    """

    def __init__(self, to_server: int, from_server: int, *, stateless: bool = False) -> None:
        self._to_server = to_server
        self._sink = Descriptor(to_server)
        self._source = Descriptor(from_server)
        self._rest = b""
        self._ids = itertools.count(1)
        self._open = True
        self.stateless = stateless
        self.heard: list[dict[str, Any]] = []
        self._unread: list[dict[str, Any]] = []

    async def send(self, data: bytes) -> None:
        with anyio.fail_after(TIMEOUT):
            await self._sink.write(data)

    async def tell(self, method: str, params: dict[str, Any] | None = None) -> None:
        await self.send(line({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})}))

    def request(self, method: str, params: dict[str, Any] | None = None, meta: dict[str, Any] | None = None) -> Any:
        """A request of this client's era, with an id of its own."""
        given = {**(ENVELOPE if self.stateless else {}), **(meta or {})}
        params = {**(params or {}), **({"_meta": given} if given else {})}
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": method, **({"params": params} if params else {})}

    async def ask(self, method: str, params: dict[str, Any] | None = None, meta: dict[str, Any] | None = None) -> int:
        """Send a request; its id."""
        request = self.request(method, params, meta)
        await self.send(line(request))
        return int(request["id"])

    async def call(self, name: str, meta: dict[str, Any] | None = None, **arguments: Any) -> int:
        """Send a tools/call; its id."""
        return await self.ask("tools/call", {"name": name, "arguments": arguments}, meta)

    async def get(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """The answer to a request."""
        return await self.answer(await self.ask(method, params))

    async def hello(self) -> dict[str, Any]:
        """Begin, in this client's era."""
        if self.stateless:
            return await self.get("server/discover")
        params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": CLIENT_INFO}
        answer = await self.get("initialize", params)
        await self.tell("notifications/initialized")
        await self.get("ping")
        return answer

    async def listen(self) -> int:
        """Open a subscriptions/listen stream for changes of the tools; its id, once acknowledged."""
        opened = await self.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await self.until(lambda message: message.get("method") == "notifications/subscriptions/acknowledged")
        return opened

    async def answer(self, number: int | str | None) -> dict[str, Any]:
        """The answer that has this id."""
        return await self.until(lambda message: "method" not in message and message.get("id") == number)

    async def notice(self, method: str) -> dict[str, Any]:
        """The next notification of this method."""
        return await self.until(lambda message: message.get("method") == method)

    async def until(self, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first message not yet taken that fits; others stay for whoever wants them."""
        with anyio.fail_after(TIMEOUT):
            while True:
                for index, message in enumerate(self._unread):
                    if fits(message):
                        return self._unread.pop(index)
                if not await self._read():
                    raise EOFError(f"the server left; it had said {self.heard}")

    async def rest(self) -> list[dict[str, Any]]:
        """Everything not yet taken, up to the server's end."""
        with anyio.fail_after(TIMEOUT):
            while await self._read():
                pass
        taken, self._unread = self._unread, []
        return taken

    def hang_up(self) -> None:
        """End the server's input."""
        if self._open:
            self._open = False
            os.close(self._to_server)

    async def _read(self) -> bool:
        data = await self._source.read()
        *lines, self._rest = (self._rest + data).split(b"\n")
        for each in lines:
            message = json.loads(each)
            assert message["jsonrpc"] == "2.0", each
            self.heard.append(message)
            self._unread.append(message)
        assert data or not self._rest, f"an unfinished line: {self._rest!r}"
        return bool(data)


def line(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


@contextlib.asynccontextmanager
async def served(tools: ToolRegistry | Bridge, *, stateless: bool = False, drain: float = 10.0) -> AsyncIterator[Talk]:
    """`stdio.serve` in this process. At the end of the block input ends, and serving with it."""
    bridge = to_bridge(tools)
    from_client, to_server = os.pipe()
    from_server, to_client = os.pipe()
    talk = Talk(to_server, from_server, stateless=stateless)

    async def serve() -> None:
        try:
            await stdio.serve(bridge.endpoint, StdioPipes(from_client, to_client), drain=drain, signals=False)
        finally:
            os.close(to_client)

    try:
        async with bridge.run_sources(), anyio.create_task_group() as tasks:
            await bridge.wait_until_started()
            tasks.start_soon(serve)
            try:
                yield talk
            finally:
                talk.hang_up()
                tasks.cancel_scope.deadline = anyio.current_time() + TIMEOUT
    finally:
        talk.hang_up()
        os.close(from_server)
        os.close(from_client)


class Server(Talk):
    """A real server process."""

    def __init__(self, process: subprocess.Popen[bytes], *, stateless: bool) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        super().__init__(os.dup(process.stdin.fileno()), process.stdout.fileno(), stateless=stateless)
        process.stdin.close()
        self.process = process

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def exit_code(self) -> int:
        with anyio.fail_after(TIMEOUT):
            return await to_thread.run_sync(self.process.wait, abandon_on_cancel=True)


def command(file: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "mcp_bridge", "serve", str(file), *options]


@contextlib.asynccontextmanager
async def spawned(file: Path, *options: str, stateless: bool = False, stderr: Any = None) -> AsyncIterator[Server]:
    """A server process for a file of tools; it does not outlive the block."""
    process = subprocess.Popen(  # noqa: ASYNC220 - its pipes are polled, as plain descriptors
        command(file, *options), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, cwd=file.parent
    )
    server = Server(process, stateless=stateless)
    try:
        yield server
    finally:
        server.hang_up()
        if process.poll() is None:
            try:
                await server.exit_code()
            except TimeoutError:
                process.kill()
                process.wait()
        assert process.stdout is not None
        process.stdout.close()
