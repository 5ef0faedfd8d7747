"""How bytes arrive and leave: stdio, HTTP (Streamable HTTP and SSE in one ASGI app), memory."""
