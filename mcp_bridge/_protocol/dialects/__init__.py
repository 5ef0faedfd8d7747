"""The tools that each client accepts, and the rewriting of schemas for them."""
