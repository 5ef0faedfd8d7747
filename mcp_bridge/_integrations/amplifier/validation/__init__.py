"""Validation of modules: the checklists of all five types of modules, and the checks behind each item."""
