"""The registry, the pipeline of a call, and what turns functions into tools."""
