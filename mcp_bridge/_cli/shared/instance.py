"""Finds the shared server for a client.

Clients of one user share a server if they have the same file with the same content, the same version of mcp-bridge and
Python, and the same options and variables. A digest of all these is the name of the socket.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from mcp_bridge._cli.serve_options import ServeOptions
from mcp_bridge._runtime.platform import system
from mcp_bridge._runtime.platform.endpoints import endpoints
from mcp_bridge._runtime.user_folders import get_state_folder
from mcp_bridge._version import __version__

_WORD = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(rb"(?:\$\{|\benv:)([A-Za-z_][A-Za-z0-9_]*)")
_PUBLIC = frozenset(
    {"HOME", "HOSTNAME", "LANG", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHELL", "SHLVL", "TMPDIR", "USER"}
)
"""Variables of every process. They often differ between clients, and count only if a reference names them."""


class SharedInstance(NamedTuple):
    """A shared server, running or not: its file, its options, its working directory, its socket and its log."""

    file: str
    options: ServeOptions
    directory: str
    socket: Path
    log: Path

    @property
    def pid_file(self) -> Path:
        """The file with the id of the process, for signals to the server."""
        return self.socket.with_suffix(".pid")


def find_instance(options: ServeOptions, environ: Mapping[str, str] = os.environ) -> SharedInstance:
    """Return the instance for these options.

    A variable of the environment counts if its name is a word in the file. Only the parser of the settings would find
    the actual references, and its import would take longer than this process may take to start. PATH counts if the file
    has a command, because it selects the program.

    Raises OSError if the file cannot be read, or the folder belongs to another user.
    """
    file = os.path.realpath(options.file or "")
    content = b"\n".join(_list_contents(file))
    words = {word.decode() for word in _WORD.findall(content)}
    # The settings may have `working_dir: cwd`.
    directory = os.getcwd() if "cwd" in words else os.path.dirname(file)
    names = (words - _PUBLIC) | {name.decode() for name in _REFERENCE.findall(content)}
    if "command" in words:
        names.add("PATH")
    variables = [f"{name}={environ[name]}" for name in sorted(names) if name in environ]
    log_file = os.path.abspath(options.log_file) if options.log_file is not None else ""
    options_text = f"{options.reload} {options.guard} {options.log_level} {log_file}"
    texts = [__version__, sys.executable, file, directory, options_text, *variables]
    identity = [text.encode(errors="surrogateescape") for text in texts]
    # A server that reloads its file stays the same server when the file changes.
    if not (options.reload and file.endswith(".py")):
        identity.append(content)
    digest = hashlib.sha256()
    for data in identity:
        digest.update(b"%d:%s" % (len(data), data))
    file_digest = hashlib.sha256(os.fsencode(file)).hexdigest()
    log = find_state_folder() / f"{_clean_name(file)}-{file_digest[:8]}.log"
    path = find_socket_folder() / f"{digest.hexdigest()[:20]}.sock"
    return SharedInstance(file, options, directory, path, log)


def find_socket_folder() -> Path:
    """Create the folder with the sockets of this user, and return it. Raises OSError."""
    runtime = system.find_runtime_folder()
    if runtime is not None:
        return system.create_private_folder(runtime / "mcp-bridge-shared")
    return system.create_private_folder(endpoints.shorten_folder(find_state_folder()))


def find_state_folder() -> Path:
    """Create the folder with the logs of this user's shared servers, and return it. Raises OSError."""
    return system.create_private_folder(get_state_folder() / "shared")


def _list_contents(file: str) -> Iterator[bytes]:
    """Yield the content of a file, or the names and contents of the Python files in a folder."""
    if not os.path.isdir(file):
        yield Path(file).read_bytes()
        return
    for path in sorted(Path(file).glob("*.py")):
        yield os.fsencode(path.name)
        yield path.read_bytes()


def _clean_name(file: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", os.path.basename(file))[:40] or "server"
