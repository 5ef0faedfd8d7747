"""The events log: a line of JSON for each event of a session, as the module hooks-logging of Amplifier writes it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from mcp_bridge.amplifier.events import ALL_EVENTS
from mcp_bridge.amplifier.source.contributions import collected
from mcp_bridge.amplifier.source.journal import SIZE, Journal
from mcp_bridge.runtime.redaction import MARK, Redactor
from mcp_bridge.schema.secrets import names_secret
from mcp_bridge.wire.values import Unreadable, plain, words

SCHEMA = {"name": "amplifier.log", "ver": "1.0.0"}
OBSERVABLE = "observability.events"
"""The channel, and the capability, by which modules tell which events they emit."""
SESSION = "{session_id}"
"""What stands in a path for the id of the session."""
NAME = "events-log"
"""What its hooks are called."""
LAST = 2**31 - 1
"""A priority after every other: what is written is what the others have made of the data."""
_TOP = frozenset(
    {"redaction", "status", "duration_ms", "module", "component", "error", "request_id"}
    | {"span_id", "parent_span_id", "session_id"}
)
"""Fields that stand beside the data, not in it."""
_UNSEEN = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What JSON lets pass, and a terminal or an editor obeys."""


class Recording:
    """Writes the events of sessions to `path`, in which `{session_id}` may stand. It decides nothing, and never fails.

    A file that would grow beyond `size` bytes is turned over.
    """

    def __init__(self, path: Path, redactor: Redactor, size: int = SIZE) -> None:
        self._path = path
        self._redactor = redactor
        self._journal = Journal(size)

    def begin(self, coordinator: Any) -> None:
        """Hear all standard events of a session; those of modules that fail come before any is ready."""
        self._hear(coordinator, ALL_EVENTS)

    async def ready(self, coordinator: Any) -> None:
        """Hear the events too that its modules have said they emit."""
        named = _names(coordinator.get_capability(OBSERVABLE))
        for given in await collected(coordinator, OBSERVABLE):
            named += _names(given.get("value"))
        self._hear(coordinator, [event for event in dict.fromkeys(named) if event not in ALL_EVENTS])

    def end(self) -> None:
        """Have the last lines written; this may wait."""
        self._journal.close()

    def _hear(self, coordinator: Any, events: Iterable[str]) -> None:
        path = Path(str(self._path).replace(SESSION, str(coordinator.session_id)))

        def note(event: str, data: dict[str, Any]) -> None:
            self._journal.write(path, _line(record(event, self._without_secrets(data))))

        for event in events:
            coordinator.hooks.register(event, note, LAST, NAME)

    def _without_secrets(self, data: Mapping[str, Any]) -> dict[str, Any]:
        try:
            made: dict[str, Any] = self._redactor.value(plain(data))
        except Unreadable as error:
            return {"session_id": data.get("session_id"), "error": {"type": "Unreadable", "msg": str(error)}}
        return made


def others(handlers: Mapping[str, Iterable[str]]) -> set[str]:
    """The names of handlers, by event, that are not the log's."""
    return {name for names in handlers.values() for name in names} - {NAME}


def record(event: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """An event as it is written: some fields of its data beside the others, and ERROR where it tells of one."""
    beside = {key: value for key, value in data.items() if key in _TOP}
    rest = {key: value for key, value in data.items() if key not in _TOP}
    level = data.get("lvl", "INFO")
    if level != "DEBUG" and (beside.get("status") == "error" or beside.get("error") or "error" in event):
        level = "ERROR"
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    made = {"ts": now, "lvl": level, "schema": SCHEMA, "event": event, **beside}
    return {**made, "data": rest} if rest else made


def without_secrets(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration without what its own keys call secrets, also where it is written out; nothing if unreadable."""
    try:
        made: dict[str, Any] = _unnamed(plain(config))
    except Unreadable:
        return {}
    return made


def _unnamed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: MARK if item and names_secret(key) else _unnamed(item) for key, item in value.items()}
    return [_unnamed(item) for item in value] if isinstance(value, list) else value


def _line(made: dict[str, Any]) -> bytes:
    line = orjson.dumps(made)
    if not line.isascii() or b"\x7f" in line:
        line = _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", line.decode()).encode()
    return line + b"\n"


def _names(given: Any) -> list[str]:
    """The names of events in what a module has said."""
    named = [given] if isinstance(given, str) else given if isinstance(given, list | tuple | set | frozenset) else ()
    return [name for one in named if (name := words(one))]
