"""The floor on HTTP: a bare ASGI app that parses the body with orjson, on uvicorn with uvloop and httptools."""

import sys

import orjson
import uvicorn

from benchmarks.servers.floor import Floor


def make_app():
    """Return the app. It answers every path and method alike."""
    floor = Floor()

    async def app(scope, receive, send):
        body = b""
        while True:
            event = await receive()
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
        reply = floor.reply(orjson.loads(body))
        data = orjson.dumps(reply) if reply else b""
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
        await send({"type": "http.response.start", "status": 200 if reply else 202, "headers": headers})
        await send({"type": "http.response.body", "body": data})

    return app


if __name__ == "__main__":
    uvicorn.run(
        make_app(),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        lifespan="off",
        log_level="warning",
        access_log=False,
    )
