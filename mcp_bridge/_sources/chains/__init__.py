"""Chains in the settings, which run tools of all sources."""
