"""An HTTP/1.1 server for an ASGI app. It knows nothing of MCP.

`ConnectionPool` has the open connections, `HttpConnection` parses the requests of one, and `Exchange` is a request with
its response.
"""
