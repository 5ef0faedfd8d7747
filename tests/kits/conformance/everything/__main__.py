"""The fixture server of the official conformance suite, in both eras: `python everything --port 0`.

Like a user's server, it imports only the public modules of mcp_bridge and the standard library.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

import changes
from long_calls import TASKS
from shelf import registry

from mcp_bridge import serve
from mcp_bridge.serving import State

PARTS = ("content", "messages", "schemas", "resources", "prompts", "long_calls")


def options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="everything", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--instances", type=Path, help="be one of several: a folder in which they find each other")
    parser.add_argument("--key", action="append", default=[], help="a key that seals states, the same for all of them")
    return parser.parse_args()


def main() -> None:
    """Publish everything and serve it."""
    arguments = options()
    for module in (*PARTS, "asking_in_line" if arguments.instances is None else "asking_again"):
        importlib.import_module(module)
    changes.publish(arguments.instances)
    serve(registry, http=arguments.port, state=State(keys=arguments.key, tasks=TASKS))


if __name__ == "__main__":
    main()
