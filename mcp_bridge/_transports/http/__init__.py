"""HTTP: Streamable HTTP at /mcp for both eras, legacy SSE at /sse and /messages, /health; one ASGI app."""
