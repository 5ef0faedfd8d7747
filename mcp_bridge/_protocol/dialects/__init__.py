"""Dialects: which tools each client accepts, and how their schemas are rewritten for it."""
