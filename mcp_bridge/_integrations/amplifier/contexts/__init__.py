"""The context modules of this package: the memory of an agent (CONTEXT_CONTRACT 2.1.0)."""
