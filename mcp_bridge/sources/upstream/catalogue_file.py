"""The file with the last good catalogue of a server: what it listed when it was connected last."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from mcp_bridge.runtime.file_replacement import replace_file
from mcp_bridge.runtime.state_folder import get_state_folder, hash_path

logger = logging.getLogger("mcp_bridge.sources.upstream")

VERSION = 1
MAX_FILE = 64 * 1024 * 1024
Listed = list[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """What a server has listed, as it was on the wire, by the member of an offer such as `tools`."""

    lists: Mapping[str, Listed] = field(default_factory=dict)
    instructions: str = ""
    completes: bool = False


class CatalogueFile:
    """The stored catalogue of one server of a settings file. It is in the state folder of the user.

    `entry` identifies the entry of the server in the settings: what was stored for another one is not used.
    """

    def __init__(self, settings_file: Path, server: str, entry: str) -> None:
        name = hashlib.sha256(server.encode(errors="surrogateescape")).hexdigest()[:16]
        self.path = get_state_folder() / "catalogues" / f"{hash_path(settings_file)}-{name}.json"
        self._key = {"version": VERSION, "server": server, "entry": entry}
        self._stored: Catalogue | None = None

    def read_catalogue(self) -> Catalogue | None:
        """Return the stored catalogue; None if there is none, or none that can be used. May block."""
        try:
            with self.path.open("rb") as file:
                data = orjson.loads(file.read(MAX_FILE))
            if any(data[key] != value for key, value in self._key.items()):
                logger.info("%s is for another version or another entry of the settings, and is not used", self.path)
                return None
            self._stored = _parse_catalogue(data["catalogue"])
        except FileNotFoundError:
            return None
        except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
            logger.warning("the stored catalogue %s cannot be used: %s", self.path, error)
        return self._stored

    def write_catalogue(self, catalogue: Catalogue) -> None:
        """Store a catalogue, unless it is stored already. May block. A failure is logged."""
        if catalogue == self._stored:
            return
        self._stored = catalogue
        try:
            content = orjson.dumps({**self._key, "catalogue": catalogue})
            if len(content) < MAX_FILE:
                replace_file(self.path, content)
        except (OSError, TypeError) as error:
            logger.warning("the catalogue cannot be stored in %s: %s", self.path, error)


def _parse_catalogue(data: Mapping[str, Any]) -> Catalogue:
    lists: dict[str, Listed] = {str(kind): [dict(item) for item in listed] for kind, listed in data["lists"].items()}
    return Catalogue(lists=lists, instructions=str(data["instructions"]), completes=data["completes"] is True)
