"""Tools in the formats of language models, and the calls of these models."""
