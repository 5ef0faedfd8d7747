"""Validation of one module in a separate process: its structure, and the contract suite of its type."""
