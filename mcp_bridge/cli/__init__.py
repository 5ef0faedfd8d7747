"""The `mcp-bridge` command. stdout carries data only; everything for a person goes to stderr."""

from __future__ import annotations


def main() -> None:
    """Run the command line and exit with its code (docs/settings.md, "Exit codes")."""
    try:
        from mcp_bridge.cli.app import run

        run()
    except KeyboardInterrupt:
        from mcp_bridge.cli.exits import INTERRUPTED

        raise SystemExit(INTERRUPTED) from None
