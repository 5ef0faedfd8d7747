"""Tools of objects of other frameworks."""
