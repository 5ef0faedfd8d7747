"""`python -m mcp_bridge` is the `mcp-bridge` command."""

from mcp_bridge._cli import main

if __name__ == "__main__":
    main()
