"""JSON text."""
