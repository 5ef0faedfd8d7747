"""The tests of a framework name it at the top of the file, before its import:

    from tests.kits.frameworks.environments import require_framework

    require_framework("langchain")

`environments.py` has the names, and decides about packages that are not installed.
"""
