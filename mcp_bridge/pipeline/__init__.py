"""One tool call in order: validation, policies, the time limit, the handler, and validation of its result."""
