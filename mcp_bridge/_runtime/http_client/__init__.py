"""The client of HTTP APIs, which connects only to addresses that are allowed."""
