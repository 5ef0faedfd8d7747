"""Stores the catalogue of a server: the lists of its last connection, in a file or in a shared store.

At a start, `UpstreamSource` publishes the stored catalogue, so clients need not wait for the connection.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from anyio import to_thread

from mcp_bridge._contracts.store import Store
from mcp_bridge._runtime.exact_json import dump_json, load_json
from mcp_bridge._runtime.file_replacement import replace_file
from mcp_bridge._runtime.user_folders import get_state_folder, hash_path

logger = logging.getLogger("mcp_bridge.sources.upstream")

VERSION = 1
SHARED_TTL = 30 * 24 * 3600.0
"""Seconds that a shared store keeps a catalogue. Each start of a bridge stores it again."""
# The maximum numbers of bytes of a catalogue. A larger one is not stored.
_MAX_FILE, _MAX_SHARED = 64 * 1024 * 1024, 8 * 1024 * 1024
_PREFIX = "mcp-bridge/catalogues/"
Listed = list[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The lists of a server.

    Attributes:
        lists: The items as they were on the wire, by the names of the lists (`_LIST_METHODS`).
        instructions: The instructions of the server.
        completes: Whether the server suggests values of arguments.
    """

    lists: Mapping[str, Listed] = field(default_factory=dict)
    instructions: str = ""
    completes: bool = False


class CataloguePlace(Protocol):
    """A place for a catalogue of fewer than `limit` bytes."""

    limit: int

    async def read_bytes(self) -> bytes | None:
        """Return the stored bytes, or None. Raises OSError."""

    async def write_bytes(self, content: bytes) -> None:
        """Replace the stored bytes. Raises OSError."""


class CatalogueFile:
    """A file in the state folder of the user, for one server of a settings file."""

    limit = _MAX_FILE

    def __init__(self, settings_file: Path, server: str) -> None:
        self.path = get_state_folder() / "catalogues" / f"{hash_path(settings_file)}-{_hash_name(server)}.json"

    def __str__(self) -> str:
        return str(self.path)

    async def read_bytes(self) -> bytes | None:
        return await to_thread.run_sync(self._read_file)

    async def write_bytes(self, content: bytes) -> None:
        await to_thread.run_sync(replace_file, self.path, content)

    def _read_file(self) -> bytes | None:
        try:
            with self.path.open("rb") as file:
                return file.read(self.limit)
        except FileNotFoundError:
            return None


class SharedCatalogue:
    """A value in a store that several bridges share.

    The key in the store has the server and the digest of its entry in the settings.
    """

    limit = _MAX_SHARED

    def __init__(self, store: Store, server: str, entry: str) -> None:
        self._store = store
        self._key = f"{_PREFIX}{_hash_name(server)}/{entry}"

    def __str__(self) -> str:
        return f"the shared store ({self._key})"

    async def read_bytes(self) -> bytes | None:
        return await self._store.get(self._key)

    async def write_bytes(self, content: bytes) -> None:
        await self._store.set(self._key, content, SHARED_TTL)


class StoredCatalogue:
    """The stored catalogue of one server.

    `entry` is a digest of the server's entry in the settings. If it has changed, the stored catalogue is not used,
    because the entry may mean another server.
    """

    def __init__(self, place: CataloguePlace, server: str, entry: str) -> None:
        self._place = place
        self._key = {"version": VERSION, "server": server, "entry": entry}
        self._written: Catalogue | None = None

    async def read_catalogue(self) -> Catalogue | None:
        """Return the stored catalogue; None if there is none, or if it cannot be used."""
        try:
            content = await self._place.read_bytes()
            data = load_json(content) if content is not None else None
            if data is None:
                return None
            if any(data[key] != value for key, value in self._key.items()):
                logger.info("%s is for another version or another entry of the settings, and is not used", self._place)
                return None
            return _parse_catalogue(data["catalogue"])
        except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
            logger.warning("the stored catalogue %s cannot be used: %s", self._place, error)
            return None

    async def write_catalogue(self, catalogue: Catalogue) -> None:
        """Store a catalogue, unless it equals the last one. A failure is logged."""
        if catalogue == self._written:
            return
        self._written = catalogue
        try:
            content = dump_json({**self._key, "catalogue": catalogue})
            if len(content) < self._place.limit:
                await self._place.write_bytes(content)
        except (OSError, TypeError) as error:
            logger.warning("the catalogue cannot be stored in %s: %s", self._place, error)


def _hash_name(server: str) -> str:
    return hashlib.sha256(server.encode(errors="surrogateescape")).hexdigest()[:16]


def _parse_catalogue(data: Mapping[str, Any]) -> Catalogue:
    lists: dict[str, Listed] = {str(name): [dict(item) for item in items] for name, items in data["lists"].items()}
    return Catalogue(lists=lists, instructions=str(data["instructions"]), completes=data["completes"] is True)
