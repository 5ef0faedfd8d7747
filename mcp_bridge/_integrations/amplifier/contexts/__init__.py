"""The contexts of this package. They store the history of an agent (CONTEXT_CONTRACT 2.1.0)."""
