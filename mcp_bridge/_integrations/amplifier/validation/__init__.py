"""Validation of one module: its structure, and the contract suite of its type, which run in a process of their own."""
