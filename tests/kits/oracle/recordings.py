"""The recorded messages of each client by session, without details of one machine or moment."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

Json = dict[str, Any]
FOLDER = Path(__file__).parent / "recordings"
CLIENT, SERVER = b"client ", b"server "
_RANDOM = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# These are milliseconds since 1970.
_TIME = re.compile(r"(?<=: )1\d{12}\b")


def name_request(method: str, names: Collection[str]) -> str:
    """Return a name for a request of the server, such as `roots/list#1`, given the names of those before."""
    return f"{method}#{1 + sum(name.startswith(method) for name in names)}"


def read_log(log: bytes, places: Mapping[str, str]) -> list[Json]:
    """Return the client's messages of a log. Responses have the names of their requests, and states have numbers.

    `places` maps paths on this machine to placeholders.
    """
    names: dict[Any, str] = {}
    states: list[str] = []
    messages: list[Json] = []
    for line in log.splitlines():
        message = json.loads(line[len(CLIENT) :])
        if line.startswith(SERVER):
            if "method" in message and "id" in message:
                names[message["id"]] = name_request(message["method"], names.values())
            continue
        if "method" not in message:
            message["id"] = names[message["id"]]
        params = message.get("params", {})
        if "requestState" in params:
            params["requestState"] = f"state {_find_number(states, params['requestState'])}"
        messages.append(message)
    general: list[Json] = json.loads(_make_general(json.dumps(messages), places))
    return general


def write_recording(name: str, sessions: Mapping[str, Sequence[Json]]) -> Path:
    """Write a client's sessions to a file: a line with the name of each, and a line for each of its messages."""
    lines = [record for session, messages in sessions.items() for record in ({"session": session}, *messages)]
    path = FOLDER / f"{name}.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def read_recording(client: str) -> list[list[bytes]]:
    """Return the lines of a client for each of its sessions."""
    sessions: list[list[bytes]] = []
    for line in (FOLDER / f"{client}.jsonl").read_bytes().splitlines():
        if "session" in json.loads(line):
            sessions.append([])
        else:
            sessions[-1].append(line)
    return sessions


def list_recordings() -> set[str]:
    """Return the clients with a recording."""
    return {path.stem for path in FOLDER.glob("*.jsonl")}


def _make_general(text: str, places: Mapping[str, str]) -> str:
    """Replace the names of places, random ids and times."""
    for place, name in places.items():
        text = text.replace(place, name)
    ids: list[str] = []
    text = _RANDOM.sub(lambda match: f"00000000-0000-0000-0000-{_find_number(ids, match[0]):012}", text)
    return _TIME.sub("0", text)


def _find_number(values: list[str], value: str) -> int:
    """Return the number of a value. A new value gets the next one."""
    if value not in values:
        values.append(value)
    return 1 + values.index(value)
