"""UTCP manuals: tools that are called over HTTP or as commands. A manual is code, because it names commands.

The packages of UTCP make the HTTP calls, and are imported when a tool needs them.
"""
