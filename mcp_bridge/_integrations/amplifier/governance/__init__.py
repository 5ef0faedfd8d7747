"""Amplifier's hooks around every call of the bridge: events, approvals, and changes of results."""
