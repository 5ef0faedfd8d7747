"""Keeps the OAuth tokens of upstreams, in the keyring of the system or in a file of the user."""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_bridge._runtime.file_replacement import replace_file
from mcp_bridge._runtime.user_folders import get_state_folder

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

logger = logging.getLogger("mcp_bridge.trust")

SERVICE = "mcp-bridge"
"""The service of the entries in the keyring; their names are the URLs of the servers."""


class TokenStore:
    """Stores the tokens for one server, and the data to refresh them. All methods may block.

    If there is a file, it is used instead of the keyring. The user has chosen it, for example for a service, which has
    no keyring.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        name = hashlib.sha256(url.encode()).hexdigest()[:16]
        self.path: Path = get_state_folder() / "oauth" / f"{name}.json"

    def read_tokens(self) -> dict[str, Any]:
        """Return the stored data, or an empty dict if there is none or it cannot be read."""
        try:
            data = json.loads(self.path.read_bytes() if self.path.exists() else self._read_keyring())
        except (OSError, ValueError):
            return {}
        if not isinstance(data, dict) or data.get("url") != self.url:
            return {}
        return data

    def write_tokens(self, data: dict[str, Any], *, use_keyring: bool | None = None) -> Path | None:
        """Replace the stored data. Return the file with it, or None if it is in the keyring. Raises OSError.

        `use_keyring` selects the keyring, if there is a usable one, or the file. None keeps the data where it is.
        """
        if use_keyring is None:
            use_keyring = not self.path.exists()
        text = json.dumps({**data, "url": self.url})
        if use_keyring and self._write_keyring(text):
            self.path.unlink(missing_ok=True)
            return None
        replace_file(self.path, text.encode())
        return self.path

    def _read_keyring(self) -> str:
        backend = find_keyring()
        if backend is None:
            return ""
        try:
            return backend.get_password(SERVICE, self.url) or ""
        except Exception as error:
            # Backends raise errors of the system's keyring of any type. Their texts may contain secrets.
            logger.warning("the keyring cannot be read (%s)", type(error).__name__)
            return ""

    def _write_keyring(self, text: str) -> bool:
        backend = find_keyring()
        if backend is None:
            return False
        try:
            backend.set_password(SERVICE, self.url, text)
        except Exception as error:
            # A keyring may be locked, or limit the size of an entry, as on Windows.
            logger.warning("the keyring cannot be written (%s), so a file has the tokens", type(error).__name__)
            return False
        return True


def find_keyring() -> KeyringBackend | None:
    """Return the keyring of the system, or None without the extra `keyring` or a usable keyring. May block."""
    try:
        # Imported late, because it is an extra, and looks for its backends when it is imported.
        import keyring
    except ImportError:
        return None
    try:
        backend = keyring.get_keyring()
        # Backends that always fail or store nothing have the priority 0 or less.
        if float(backend.priority) > 0:
            return backend
    except Exception as error:
        # The priority of a backend may raise any error of its system.
        logger.warning("the keyring cannot be used (%s)", type(error).__name__)
    return None
