"""The raw client over stdio: pipes to `stdio.serve` in this process, or to a real server process.

It reads only while a test receives. A test can therefore act as a client that does not read.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from mcp_bridge import ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._app.serve import to_bridge
from mcp_bridge._runtime.stdio_descriptors import Descriptor, StdioPipes
from mcp_bridge._transports import stdio
from tests.client.raw_client import RawClient
from tests.kits.constants import TIMEOUT


def encode_line(message: Any) -> bytes:
    """Return a message as the line of JSON that stdio carries."""
    return json.dumps(message).encode() + b"\n"


class StdioClient(RawClient):
    """A connection over two descriptors. Every line of the server must be a message."""

    transport = "stdio"

    def __init__(self, to_server: int, from_server: int, **options: Any) -> None:
        super().__init__(**options)
        self._to_server = to_server
        self._sink = Descriptor(to_server)
        self._source = Descriptor(from_server)
        self._incomplete_line = b""
        self._is_input_open = True
        self._is_reading = False

    async def send(self, message: Any) -> None:
        await self.write(encode_line(message))

    async def write(self, data: bytes) -> None:
        """Write bytes as they are."""
        with anyio.fail_after(TIMEOUT):
            await self._sink.write(data)

    def close_input(self) -> None:
        """End the input of the server."""
        if self._is_input_open:
            self._is_input_open = False
            os.close(self._to_server)

    async def _wait_for_messages(self) -> None:
        # One task reads for all that wait. If it is cancelled, the next one reads.
        if self._is_reading:
            await super()._wait_for_messages()
            return
        self._is_reading = True
        try:
            data = await self._source.read()
        finally:
            self._is_reading = False
            self._wake()
        *lines, self._incomplete_line = (self._incomplete_line + data).split(b"\n")
        for line in lines:
            self.record(json.loads(line))
        if not data:
            assert not self._incomplete_line, f"an unfinished line: {self._incomplete_line!r}"
            self.record_end()


class StdioProcessClient(StdioClient):
    """A connection to a server process."""

    def __init__(self, process: subprocess.Popen[bytes], **options: Any) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        super().__init__(os.dup(process.stdin.fileno()), process.stdout.fileno(), **options)
        process.stdin.close()
        self.process = process

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        self.process.send_signal(number)

    async def wait(self) -> int:
        """Wait for the end of the process and return its exit code."""
        with anyio.fail_after(TIMEOUT):
            return await to_thread.run_sync(self.process.wait, abandon_on_cancel=True)

    async def close(self) -> int:
        """End the input of the server, receive the rest and return the exit code."""
        self.close_input()
        await self.wait_until_closed()
        return await self.wait()


@contextlib.asynccontextmanager
async def serve_over_pipes(
    tools: ToolRegistry | Bridge,
    *,
    initialize: bool = True,
    waits_for_sources: bool = True,
    drain: float = TIMEOUT,
    **options: Any,
) -> AsyncIterator[StdioClient]:
    """Serve tools with `stdio.serve` in this process and yield a client. Its input ends with the block.

    `waits_for_sources`: the block begins after all sources have published or failed.
    """
    bridge = to_bridge(tools)
    from_client, to_server = os.pipe()
    from_server, to_client = os.pipe()
    client = StdioClient(to_server, from_server, **options)
    errors: list[Exception] = []

    async def serve() -> None:
        try:
            await stdio.serve(bridge.endpoint, StdioPipes(from_client, to_client), drain=drain, handles_signals=False)
        finally:
            os.close(to_client)

    try:
        async with bridge.run_sources(), anyio.create_task_group() as tasks:
            if waits_for_sources:
                await bridge.wait_until_started()
            tasks.start_soon(serve)
            try:
                if initialize:
                    await client.initialize()
                yield client
            except Exception as error:
                # A failed assertion is raised as it is, not as a group of one.
                errors.append(error)
            finally:
                client.close_input()
                tasks.cancel_scope.deadline = anyio.current_time() + TIMEOUT
    finally:
        client.close_input()
        os.close(from_server)
        os.close(from_client)
    if errors:
        raise errors[0]


def make_serve_command(file: Path, *options: str) -> list[str]:
    """Return the command line of a stdio server for a file."""
    return [sys.executable, "-m", "mcp_bridge", "serve", str(file), *options]


@contextlib.asynccontextmanager
async def start_server(
    command: list[str], *, initialize: bool = True, stderr: Any = None, cwd: Path | None = None, **options: Any
) -> AsyncIterator[StdioProcessClient]:
    """Start a server process and yield a client of it. The process ends with the block."""
    process = subprocess.Popen(  # noqa: ASYNC220 - its pipes are polled, as plain descriptors
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, cwd=cwd
    )
    client = StdioProcessClient(process, **options)
    try:
        if initialize:
            await client.initialize()
        yield client
        client.close_input()
        if process.stdout is not None and not process.stdout.closed:
            await client.wait_until_closed()
    finally:
        client.close_input()
        if process.poll() is None:
            try:
                await client.wait()
            except TimeoutError:
                process.kill()
                process.wait()
        assert process.stdout is not None
        process.stdout.close()


def serve_file(file: Path, *options: str, **client_options: Any) -> AbstractAsyncContextManager[StdioProcessClient]:
    """Start a server process for a file and yield its client."""
    return start_server(make_serve_command(file, *options), cwd=file.parent, **client_options)
