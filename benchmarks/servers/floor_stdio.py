"""The floor on stdio: asyncio streams over pipes, and orjson. It writes each response separately."""

import asyncio
import sys

import orjson

from benchmarks.servers.floor import Floor

MAX_LINE = 4 * 1024 * 1024


async def serve():
    """Serve until the end of input."""
    loop, floor = asyncio.get_running_loop(), Floor()
    reader = asyncio.StreamReader(limit=MAX_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdout)
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    while line := await reader.readline():
        response = floor.respond(orjson.loads(line))
        if response is not None:
            writer.write(orjson.dumps(response) + b"\n")
            await writer.drain()


if __name__ == "__main__":
    asyncio.run(serve())
