"""Which tools each client accepts, and how schemas are rewritten so that a client accepts them."""
