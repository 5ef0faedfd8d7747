"""Registered tools in the formats of language models, their calls, and the results of these."""
