"""The adapter for UTCP manuals. Their tools are called over HTTP or as commands.

A manual must be trusted like code, because it names commands. The packages of UTCP make the HTTP calls, and are
imported when a tool needs them.
"""
