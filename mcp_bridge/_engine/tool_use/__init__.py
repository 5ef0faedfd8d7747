"""The tool_use API: the decorator, validation, and chains."""
