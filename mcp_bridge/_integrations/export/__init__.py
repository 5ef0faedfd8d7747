"""Exports tools in the formats of the vendors of language models, and runs the calls of these models."""
