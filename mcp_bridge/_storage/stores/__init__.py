"""Stores: they keep state that outlives a call."""
