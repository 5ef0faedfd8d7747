"""Approvals: what a person has decided about a call, where that is remembered, and who hears of it."""
