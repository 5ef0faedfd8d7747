"""Transports: stdio, HTTP (Streamable HTTP and SSE in one ASGI app) and memory, and how serving shuts down."""
