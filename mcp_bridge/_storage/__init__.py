"""Key-value stores and task engines."""
