"""Tests of frameworks say which they need, at the top of the file and before its import:

    from tests.kits.frameworks.environments import require_framework

    require_framework("langchain")

`environments.py` has the names, and decides what a package that is not installed means.
"""
