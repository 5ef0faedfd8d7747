"""Writes the dialect that the linter advises into the settings file. The page shows the change first.

As for installations, the second request has the digest of what was shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import unified_diff
from hashlib import sha256
from pathlib import Path
from typing import Any

from mcp_bridge._desktop.config_file import FileSnapshot, load_file, save_file
from mcp_bridge._desktop.journal import open_journal
from mcp_bridge._settings.documents import editor
from mcp_bridge._settings.documents.document import FORMATS
from mcp_bridge._web.installs import PlanChanged


class DialectSetting:
    """The setting `dialect` in a file. All methods read the file, so call them in a thread.

    They raise ConfigError if the file cannot be edited without losing something.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def show_change(self, client: str) -> dict[str, Any]:
        """Return the lines that change if a client is added to the dialects, and the digest of the change."""
        snapshot, text = self._make_plan(client)
        lines = list(unified_diff(snapshot.content.splitlines(), text.splitlines(), lineterm=""))
        # The first two lines name no files.
        return {"file": str(self._path), "diff": lines[2:], "digest": _compute_digest(snapshot, text)}

    def apply_change(self, client: str, digest: str) -> dict[str, Any]:
        """Make the change with this digest. Raises PlanChanged if the file has changed since it was shown."""
        snapshot, text = self._make_plan(client)
        if _compute_digest(snapshot, text) != digest:
            raise PlanChanged
        backup = save_file(self._path, snapshot, text, backup_folder=open_journal().backup_folder)
        return {"file": str(self._path), "backup": str(backup) if backup is not None else None}

    def _make_plan(self, client: str) -> tuple[FileSnapshot, str]:
        """Return the file, and its text with the client."""
        snapshot = load_file(self._path)
        file_format = FORMATS[self._path.suffix.lower()]
        data = editor.read_data(file_format, snapshot.content) or {}
        dialect = _add_client(data.get("dialect"), client)
        return snapshot, editor.put_entry(file_format, snapshot.content, (), "dialect", dialect)


def _add_client(dialect: Any, client: str) -> Mapping[str, Any]:
    """Return the setting `dialect` as a mapping, with one more client."""
    if dialect is None:
        dialect = {}
    elif isinstance(dialect, str):
        dialect = {"clients": [dialect]}
    elif isinstance(dialect, list):
        dialect = {"clients": dialect}
    return {**dialect, "clients": [*dialect.get("clients", ()), client]}


def _compute_digest(snapshot: FileSnapshot, text: str) -> str:
    return sha256(f"{snapshot.content}\0{text}".encode(errors="surrogatepass")).hexdigest()
