"""The source of OpenAPI documents: each operation of an HTTP API is a tool."""
