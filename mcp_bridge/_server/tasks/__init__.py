"""Calls as tasks, and the methods of the tasks extension."""
