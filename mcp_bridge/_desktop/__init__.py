"""MCP clients: where their files are, what a server looks like in them, and how one entry is added and removed."""
