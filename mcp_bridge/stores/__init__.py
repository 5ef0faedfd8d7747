"""Stores: where state goes that outlives a call."""
