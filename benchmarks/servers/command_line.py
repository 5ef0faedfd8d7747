"""How the compared servers are started: `SERVER [--http PORT] [--json-response]`."""

import argparse


def parse_options(description):
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--http", type=int, metavar="PORT", help="serve Streamable HTTP instead of stdio")
    parser.add_argument("--json-response", action="store_true", help="respond with JSON, which is not the default")
    return parser.parse_args()


def serve_http(app, port, **options):
    """Serve an ASGI app with uvicorn, on uvloop and httptools, until the process is ended."""
    import uvicorn

    uvicorn.run(
        app,
        host="127.0.0.1",
        port=port,
        loop="uvloop",
        http="httptools",
        log_level="warning",
        access_log=False,
        **options,
    )
