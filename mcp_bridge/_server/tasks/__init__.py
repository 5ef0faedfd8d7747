"""Calls that run as tasks, and the methods of the tasks extension."""
