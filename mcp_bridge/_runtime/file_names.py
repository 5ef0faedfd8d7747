"""Makes names of files from texts of users and third parties."""

from __future__ import annotations

import re

_FORBIDDEN = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')
_DEVICE = re.compile(r"(CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(COM|LPT)[1-9¹²³]) *(\.|$)", re.IGNORECASE)
"""Names that mean a device on Windows in every folder, with any extension (learn.microsoft.com, "Naming Files")."""


def make_file_name(text: str) -> str:
    """Return a text as a file name that is valid on every system. It is not hidden, and an extension can be added.

    >>> make_file_name("reports/2026"), make_file_name("Con"), make_file_name("..")
    ('reports_2026', '_Con', '_')
    """
    name = _FORBIDDEN.sub("_", text).lstrip(".")
    # Windows removes dots and spaces at the end.
    name = re.sub(r"[. ]$", "_", name)
    if not name or _DEVICE.match(name):
        return f"_{name}"
    return name
