"""The client of the official conformance suite: `mcp-bridge call` at a terminal, `call_client.py URL`.

The suite plays the server, and names the scenario in MCP_CONFORMANCE_SCENARIO.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.kits.cli.terminal import call_at_terminal

CALLS = {
    "tools_call": ("add_numbers", {"a": 5, "b": 3}),
    "elicitation-sep1034-client-defaults": ("test_client_elicitation_defaults", {}),
    "sse-retry": ("test_reconnection", {}),
}
"""The call of each scenario that lists none itself."""
ENTER = ["\n"] * 20
"""What the user types: the default of each question."""


def main() -> None:
    """Make the calls of the scenario. The suite judges the sent messages."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    calls = [(call["name"], call["arguments"]) for call in context.get("toolCalls", ())]
    for name, arguments in calls or [CALLS.get(os.environ["MCP_CONFORMANCE_SCENARIO"], ("none", {}))]:
        call_at_terminal(Path.cwd(), sys.argv[1], name, json.dumps(arguments), answers=ENTER)


if __name__ == "__main__":
    main()
