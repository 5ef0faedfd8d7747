"""A round-robin proxy on loopback: it forwards each HTTP request to the next of its servers, strictly in turn.

It proves that stateless servers share nothing: the rounds of one conversation reach different processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from tests.kits.constants import TIMEOUT

LENGTH = re.compile(rb"^content-length:\s*(\d+)", re.IGNORECASE | re.MULTILINE)
CONNECTION = re.compile(rb"^connection:[^\r\n]*\r\n", re.IGNORECASE | re.MULTILINE)


class RoundRobinProxy:
    """One URL for several servers. `answered` counts the started responses of each server."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._behind = [urlsplit(url) for url in urls]
        self._turn = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over = asyncio.Event()
        self._up = threading.Event()
        self.port = 0
        self.response_counts = [0 for _ in urls]

    @property
    def url(self) -> str:
        """The common URL of the servers."""
        return f"http://127.0.0.1:{self.port}{self._behind[0].path}"

    @contextlib.contextmanager
    def run_in_thread(self) -> Iterator[RoundRobinProxy]:
        """Listen in a separate thread during the block. Raises RuntimeError if the proxy does not start to listen."""
        thread = threading.Thread(target=asyncio.run, args=(self._listen(),), name="front")
        thread.start()
        try:
            if not self._up.wait(TIMEOUT):
                raise RuntimeError(f"the front did not listen within {TIMEOUT:.0f} s")
            yield self
        finally:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._over.set)
            thread.join(TIMEOUT)

    async def _listen(self) -> None:
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._loop = asyncio.get_running_loop()
        self._up.set()
        await self._over.wait()
        # Do not wait for open streams. They end with the loop.
        server.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one request to the next server in turn, and its response byte by byte."""
        # The client and the server may close their connections.
        with contextlib.suppress(OSError, asyncio.IncompleteReadError), contextlib.closing(writer):
            request = await _read_request(reader)
            turn, self._turn = self._turn, (self._turn + 1) % len(self._behind)
            server = self._behind[turn]
            answer, requests = await asyncio.open_connection(server.hostname, server.port)
            with contextlib.closing(requests):
                requests.write(request)
                first = await answer.read(65536)
                self.response_counts[turn] += bool(first)
                writer.write(first)
                await _forward_response(answer, writer, reader)


async def _read_request(reader: asyncio.StreamReader) -> bytes:
    """Return one request with `Connection: close`, so that the next request goes to another server."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = LENGTH.search(head)
    body = await reader.readexactly(int(length[1])) if length is not None else b""
    line, _, headers = head.partition(b"\r\n")
    return line + b"\r\nConnection: close\r\n" + CONNECTION.sub(b"", headers) + body


async def _forward_response(
    answer: asyncio.StreamReader, writer: asyncio.StreamWriter, reader: asyncio.StreamReader
) -> None:
    """Forward the response until the server has sent all of it, or the client has left. The server must notice that."""

    async def pass_on() -> None:
        while data := await answer.read(65536):
            writer.write(data)
            await writer.drain()

    tasks = [asyncio.create_task(pass_on()), asyncio.create_task(reader.read(1))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
