"""The `mcp-bridge` command. Only data goes to stdout; everything for the user goes to stderr."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run the command line and exit with its code (docs/settings-reference.md, "Exit codes")."""
    # Collections during the imports take a tenth of a start. `enable_collections` enables them again.
    gc.disable()
    try:
        from mcp_bridge._cli.text_streams import open_missing_streams

        open_missing_streams()
        if "_ARGCOMPLETE" in os.environ:
            from mcp_bridge._cli.completion import complete_words

            complete_words()
        if sys.argv[1:2] == ["serve"] and "--shared" in sys.argv:
            from mcp_bridge._cli.shared.command_line import run_relay_command

            run_relay_command(sys.argv[2:])
        from mcp_bridge._runtime.platform import system

        # The supervisor is a fork of this process, so it starts before other imports, which would enlarge it.
        guard = system.start_supervisor(sys.argv[1:])
        from mcp_bridge._cli.command_line import run_command_line

        run_command_line(guard)
    except KeyboardInterrupt:
        from mcp_bridge._cli.exits import INTERRUPTED

        raise SystemExit(INTERRUPTED) from None
