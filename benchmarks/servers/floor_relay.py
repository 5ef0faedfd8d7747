"""The floor of a gateway on stdio: gives each message another id. The arguments are the command of the server.

It validates and limits nothing, waits for nobody, and knows no notifications.
"""

import asyncio
import itertools
import sys

import orjson

from benchmarks.servers.floor_stdio import MAX_LINE, open_standard_streams


async def relay(command):
    """Relay messages between the standard streams and the program, until the end of input."""
    reader, writer = await open_standard_streams()
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
    program = await asyncio.create_subprocess_exec(*command, limit=MAX_LINE, **pipes)
    numbers, ids = itertools.count(1), {}

    async def relay_responses():
        while line := await program.stdout.readline():
            response = orjson.loads(line)
            response["id"] = ids.pop(response["id"])
            writer.write(orjson.dumps(response) + b"\n")
            await writer.drain()

    responding = asyncio.create_task(relay_responses())
    while line := await reader.readline():
        message = orjson.loads(line)
        if "id" in message:
            number = next(numbers)
            ids[number] = message["id"]
            message["id"] = number
        program.stdin.write(orjson.dumps(message) + b"\n")
        await program.stdin.drain()
    program.stdin.close()
    await responding
    await program.wait()


if __name__ == "__main__":
    asyncio.run(relay(sys.argv[1:]))
