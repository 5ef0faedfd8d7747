"""Serves tools of other Python frameworks. Each has an adapter module, imported with its first object."""
