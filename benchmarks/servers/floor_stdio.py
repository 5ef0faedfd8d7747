"""The floor on stdio: asyncio pipes and orjson. All lines of one read are answered by one write."""

import asyncio
import sys

import orjson

from benchmarks.servers.floor import Floor


class LineProtocol(asyncio.Protocol):
    """Reads lines from stdin and writes replies to stdout."""

    def __init__(self, write, ended):
        self._rest, self._write, self._ended, self._floor = b"", write, ended, Floor()

    def data_received(self, data):
        *lines, self._rest = (self._rest + data).split(b"\n")
        replies = [reply for line in lines if (reply := self._floor.reply(orjson.loads(line)))]
        if replies:
            self._write(b"\n".join(map(orjson.dumps, replies)) + b"\n")

    def connection_lost(self, error):
        self._ended.set()


async def serve():
    """Serve until the end of input."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    stdout, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, sys.stdout)
    await loop.connect_read_pipe(lambda: LineProtocol(stdout.write, ended), sys.stdin)
    await ended.wait()


if __name__ == "__main__":
    asyncio.run(serve())
