"""The registry, the pipeline of a call, and the decorators of functions."""
