"""Finds programs on Windows, and protects batch files from arguments that they would run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from ntpath import basename

DEFAULT_EXTENSIONS = os.pathsep.join((".com", ".exe", ".bat", ".cmd"))
"""The extensions of programs if PATHEXT is not set."""
BATCH_EXTENSIONS = (".bat", ".cmd")
UNSAFE_CHARACTERS = frozenset('"%!^&|<>\r\n\0')
"""What cmd.exe interprets in arguments, in some cases even between quotes (CVE-2024-24576)."""
_UNQUOTED_UNSAFE_CHARACTERS = frozenset("()")
"""What cmd.exe interprets in arguments without spaces. The others are quoted (subprocess.list2cmdline)."""


def is_path(command: str) -> bool:
    return bool(os.path.dirname(command) or os.path.splitdrive(command)[0])


def locate_program(command: str, search_path: str | None = None) -> str | None:
    """Return the path of a program with its extension, such as `npx.cmd` for `npx`, or None.

    The current folder is not searched, unlike by the system itself: it may contain files of other users.
    """
    endings = (os.environ.get("PATHEXT") or DEFAULT_EXTENSIONS).lower().split(os.pathsep)
    if os.path.splitext(command)[1].lower() in endings:
        endings = ["", *endings]
    folders = [""]
    if not is_path(command):
        search_path = os.environ.get("PATH", "") if search_path is None else search_path
        folders = [folder.strip('"') for folder in search_path.split(os.pathsep) if folder.strip('"')]
    for folder in folders:
        for ending in endings:
            path = os.path.join(folder, command + ending)
            if os.path.isfile(path):
                return path
    return None


def check_command(command: Sequence[str]) -> None:
    """Check the arguments for a batch file, because cmd.exe reads them again, and could run a part of them.

    Raises ValueError, without the arguments, which may be secret.
    """
    program, *arguments = command
    # Windows ignores spaces and dots at the end of a file's name.
    if not program.rstrip(" .").lower().endswith(BATCH_EXTENSIONS):
        return
    for argument in arguments:
        unsafe = UNSAFE_CHARACTERS
        if argument and not set(" \t") & set(argument):
            unsafe |= _UNQUOTED_UNSAFE_CHARACTERS
        characters = sorted(unsafe & set(argument))
        if characters:
            raise ValueError(
                f"{basename(program)} is a batch file, which would interpret {' '.join(map(repr, characters))} in an "
                "argument. Leave these characters out, or run the program behind the batch file, such as node.exe"
            )
