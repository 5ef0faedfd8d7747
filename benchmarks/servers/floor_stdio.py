"""The floor on stdio: asyncio streams over pipes, and orjson. It writes each response separately."""

import asyncio
import sys

import orjson

from benchmarks.servers.floor import Floor

MAX_LINE = 4 * 1024 * 1024


async def open_standard_streams():
    """Return a reader of the standard input and a writer of the standard output."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    # A writer needs a protocol, and the only public one has a reader.
    unused_reader = asyncio.StreamReader()
    transport, protocol = await loop.connect_write_pipe(lambda: asyncio.StreamReaderProtocol(unused_reader), sys.stdout)
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


async def serve():
    """Serve until the end of input."""
    floor = Floor()
    reader, writer = await open_standard_streams()
    while line := await reader.readline():
        response = floor.respond(orjson.loads(line))
        if response is not None:
            writer.write(orjson.dumps(response) + b"\n")
            await writer.drain()


if __name__ == "__main__":
    asyncio.run(serve())
