"""Tools from, and for, other frameworks."""
