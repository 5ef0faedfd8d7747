"""Connects the other packages: builds a bridge from settings, runs its sources, and serves it."""
