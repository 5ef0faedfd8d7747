"""Names to entries: the registry that every call goes through, what sources publish into it, and the plugin table."""
