"""Checking a module against its contract: the checklists of all five types, and what each line asks of a module."""
