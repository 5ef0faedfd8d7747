"""Tools, resources and prompts from Python: a module, a file, or a folder of files."""

from mcp_bridge._sources.python.source import PythonSource

__all__ = ["PythonSource"]
