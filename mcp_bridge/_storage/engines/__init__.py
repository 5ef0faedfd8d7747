"""Engines, which keep and run tasks."""
