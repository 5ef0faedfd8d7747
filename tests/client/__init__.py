"""The raw client of the tests: one API over memory, stdio, Streamable HTTP and SSE, in both protocol eras."""
