"""The client of HTTP APIs. It connects only to allowed addresses."""
