"""Stores keep state between calls."""
