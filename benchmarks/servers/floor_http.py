"""The floor on HTTP: a bare ASGI app that parses the body with orjson, on uvicorn with uvloop and httptools."""

import orjson

from benchmarks.servers.command_line import parse_options, serve_http
from benchmarks.servers.floor import Floor


def make_app():
    """Return the app. It responds to every path and HTTP method alike."""
    floor = Floor()

    async def app(scope, receive, send):
        body = b""
        while True:
            event = await receive()
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
        response = floor.respond(orjson.loads(body))
        status, data = 202, b""
        if response is not None:
            status, data = 200, orjson.dumps(response)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": data})

    return app


if __name__ == "__main__":
    serve_http(make_app(), parse_options(__doc__).http, lifespan="off")
