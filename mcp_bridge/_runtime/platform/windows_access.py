"""Checks on Windows that only one user can use a folder."""

from __future__ import annotations

import re
from pathlib import Path

from mcp_bridge._runtime.platform import kernel32


def create_private_folder(folder: Path) -> Path:
    # Newer Python versions give a new folder private access rights for this mode, and older ones those of its parent.
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    names = find_other_users(kernel32.read_access_rights(str(folder)), kernel32.read_user_sid())
    if names:
        problem = f"other users ({', '.join(names)}) can use the folder {folder}"
        raise PermissionError(f"{problem}. Remove it, or their permissions in its properties")
    return folder


def find_other_users(rights: str, user: str) -> list[str]:
    """Return who else than the user, the system and administrators owns a file or has access to it.

    `rights` are in the Security Descriptor Definition Language, and `user` is a security identifier (SID).
    """
    # The creator (CO) and the owner (OW) are the user, because the owner is checked.
    trusted = {user, "SY", "BA", "CO", "OW"}
    if user.endswith("-500"):
        # The alias of the built-in administrator.
        trusted.add("LA")
    owner = re.match(r"O:(S-[\d-]+|[A-Z]{2})", rights)
    names = [owner[1] if owner else "unknown owner"]
    access_list = rights.partition("D:")[2]
    # Without a list, every user has access.
    if "(" not in access_list:
        names.append("everybody")
    for entry in re.findall(r"\(([^)]*)\)", access_list):
        kind, *_, name = entry.split(";")[:6]
        if kind in ("A", "OA", "XA"):
            names.append(name)
    return sorted(set(names) - trusted)
