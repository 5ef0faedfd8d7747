"""Decisions of users about calls: how they are asked for at a terminal, remembered, and written to an audit log."""
