"""Schemas: what fits one, what to say when something does not, and how to infer one from a signature."""
