"""Engines keep and run tasks."""
