"""The HTTP client for calls of APIs. It connects only to allowed addresses, so that no API can reach private hosts."""
