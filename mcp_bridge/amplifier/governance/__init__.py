"""Amplifier's hooks around every call of the bridge: events, approvals, and what hooks make of a result."""
