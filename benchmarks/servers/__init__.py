"""The servers that are compared: each offers the same tools with as little around them as it allows."""
