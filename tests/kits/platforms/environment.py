"""The variables that make a process a simulated one."""

import os

MARKER = "SIMULATED_SYSTEM"
"""The `sys.platform` of the simulated system. The launcher sets it, so every process below has it."""
RECORDS = "SIMULATED_RECORDS"
"""A folder for records of what cannot be done, such as opened web pages."""
RECORDS_FOLDER = os.environ.get(RECORDS, "")
"""This folder in a simulated process."""
