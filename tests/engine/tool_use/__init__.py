"""The tool_use API, tested from its specification."""
