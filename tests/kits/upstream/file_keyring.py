"""A keyring with entries in the JSON file named by FILE_KEYRING. Without its folder, it is locked."""

from __future__ import annotations

import json
import os
from pathlib import Path

from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked


class FileKeyring(KeyringBackend):
    """The keyring of the processes of a test, which set PYTHON_KEYRING_BACKEND to it."""

    priority = 1  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self._file = Path(os.environ["FILE_KEYRING"])

    def get_password(self, service: str, username: str) -> str | None:
        return self._read_entries().get(f"{service}/{username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        entries = self._read_entries()
        self._file.write_text(json.dumps({**entries, f"{service}/{username}": password}))

    def _read_entries(self) -> dict[str, str]:
        if not self._file.parent.exists():
            raise KeyringLocked("planted text of the keyring")
        entries: dict[str, str] = json.loads(self._file.read_text()) if self._file.exists() else {}
        return entries
