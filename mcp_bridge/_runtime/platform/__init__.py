"""Everything that differs between Linux, macOS and Windows. Other packages ask `system`, and never which system it is.

- `system` is the module `posix` or `windows`. Both have the same names: processes and their ends, signals, locks of
  files, resource limits, terminals, the search for programs, and paths in URIs.
- `endpoints` opens local endpoints, which only processes of the same user can use: Unix sockets, or TCP with tokens.
- `supervisor` ends what the server and its children leave behind (POSIX). On Windows, jobs do that.
- `kernel32` calls the API of Windows. Only `windows` uses it, so that a test can replace it.
"""

import sys

if sys.platform == "win32":
    from mcp_bridge._runtime.platform import windows as system
else:
    from mcp_bridge._runtime.platform import posix as system

__all__ = ["system"]
