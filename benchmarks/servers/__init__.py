"""The compared servers. Each offers the same tools with as little around them as possible."""
