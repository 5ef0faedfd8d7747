"""Defines the vocabulary of all packages: tools, content, results, errors, call context and extension points."""
