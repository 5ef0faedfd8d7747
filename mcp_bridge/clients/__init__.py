"""MCP clients: where their files are, what a server looks like in them, and how one entry is put in and taken out."""
