"""Collects the servers in the files of clients, and writes a settings file with them, for `mcp-bridge import`.

Secrets in the entries are replaced by references to variables (`embedded_secrets.py`).
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop.client import Client, ConfigPlace, InstalledServer, Machine
from mcp_bridge._desktop.embedded_secrets import SecretCollector
from mcp_bridge._desktop.locations import find_project_folder, resolve_place_path
from mcp_bridge._desktop.servers import read_servers, starts_bridge
from mcp_bridge._settings import prepare, read_document
from mcp_bridge._settings.client_entries import (
    is_sandbox,
    is_server_entry,
    is_switched_off,
    list_unread_keys,
    normalize_entry,
    resolve_places,
)
from mcp_bridge._settings.servers import list_entry_places

_OPTIONS = ("command", "args", "env", "cwd", "url", "transport", "headers", "start_timeout", "include", "exclude")
"""The keys of an entry that become options of the source."""
_REQUIRED_REFERENCE = re.compile(r"(?<!\$)\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")
"""A reference without a default, such as `${NAME}`: the user has to set the variable."""
_ANY_REFERENCE = re.compile(r"(?<!\$)\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)")
"""The beginning of any reference, with a default (`${NAME:-DEFAULT}`) or without one."""
_INPUT = re.compile(r"\$\{input:([^}]+)\}")
"""A question that VS Code asks its user, such as `${input:api-key}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundServer:
    """A server in a client's file.

    `place` describes the file for users. `options` are those of the source, with the secrets of the entry.
    """

    name: str
    client: str
    place: str
    path: Path
    options: Mapping[str, Any]
    omission: str = ""
    """Why the server is not imported; empty if it is."""
    notes: Sequence[str] = ()
    """Notes about keys of the entry that are not read."""

    @property
    def identity(self) -> str:
        """A text that is equal for two entries of the same server."""
        return json.dumps(self.options, sort_keys=True, default=str)


@dataclass(slots=True, kw_only=True)
class ServerImport:
    """The result of an import.

    `servers` has the entries of each imported server by its new name, `omitted` the other entries.
    `secrets` has the variables that users have to set.
    """

    servers: dict[str, list[FoundServer]] = field(default_factory=dict)
    omitted: list[FoundServer] = field(default_factory=list)
    problems: list[ConfigError] = field(default_factory=list)
    secrets: SecretCollector = field(default_factory=SecretCollector)

    def add_server(self, server: FoundServer) -> None:
        """Add an entry. Equal entries in several files become one server.

        If another server has the name, the first alternative is `NAME-CLIENT`, then `NAME-2` and so on.
        """
        if server.omission:
            self.omitted.append(server)
            return
        for entries in self.servers.values():
            if entries[0].identity == server.identity:
                entries.append(server)
                return
        name = server.name
        number = 1
        while name in self.servers:
            suffix = server.client if number == 1 else str(number)
            name = f"{server.name}-{suffix}"
            number += 1
        self.servers[name] = [server]

    def render_settings(self) -> str:
        """Return the settings file as YAML."""
        from ruamel.yaml import YAML

        yaml = YAML()
        yaml.indent(mapping=2, sequence=4, offset=2)
        yaml.width = 4096
        options_text = json.dumps([entries[0].options for entries in self.servers.values()], default=str)
        # A new variable for a secret must not get the name of a variable to which an entry refers.
        self.secrets.reserved = frozenset(_ANY_REFERENCE.findall(options_text))
        lines = ["# Made by `mcp-bridge import`. Secrets are references to variables: ${NAME}.", "sources:"]
        for name, entries in self.servers.items():
            where = f"{entries[0].path}, {name}"
            source = {"type": "mcp", "name": name, **self.secrets.replace_secrets(name, entries[0].options, where)}
            text = io.StringIO()
            yaml.dump({"sources": [source]}, text)
            # The comment above each source names the files with the server.
            lines.append(f"  # {', '.join(entry.place for entry in entries)}")
            lines += text.getvalue().splitlines()[1:]
        return "\n".join(lines) + "\n"


def find_other_variables(text: str, secrets: SecretCollector) -> list[str]:
    """Return the required variables of settings, without those for secrets."""
    names = dict.fromkeys(match[1] for match in _REQUIRED_REFERENCE.finditer(text))
    # The comment at the beginning of the settings has `${NAME}`.
    return [name for name in names if name not in secrets.places and name != "NAME"]


def find_servers(client: Client, machine: Machine) -> Iterator[FoundServer | ConfigError]:
    """Yield the servers in all files of a client, and an error for each unreadable file."""
    searched_places: set[tuple[Path, Sequence[str]]] = set()
    for place in client.places:
        # In the home folder, the file of the user is also that of the project.
        key = (resolve_place_path(place, machine).resolve(), tuple(place.within))
        if key in searched_places:
            continue
        searched_places.add(key)
        try:
            for server in read_servers(client, place, machine):
                yield _convert_server(client, place, server, machine)
        except ConfigError as error:
            yield error


def find_servers_in_file(path: Path) -> Iterator[FoundServer]:
    """Yield the servers in a file of any client. Raises ConfigError for an unreadable or empty file."""
    document = prepare(read_document(path))
    places = [place for place in list_entry_places(document.data) if place[0] != "sources"]
    if not places:
        raise ConfigError("it has no list of servers", path=str(path), hint="Pass a file of an MCP client")
    for place in places:
        entry: Any = document.data
        for step in place:
            entry = entry[step]
        options: Mapping[str, Any] = {}
        notes: Sequence[str] = ()
        if isinstance(entry, Mapping):
            options = _select_options(_replace_inputs(entry))
            notes = list_unread_keys(entry)
        yield FoundServer(
            name=str(place[-1]),
            client=path.stem.strip("."),
            place=str(path),
            path=path,
            options=options,
            omission=_find_omission(entry, options),
            notes=notes,
        )


def _convert_server(client: Client, place: ConfigPlace, server: InstalledServer, machine: Machine) -> FoundServer:
    folder = find_project_folder(machine) if place.scope != "user" else machine.home
    entry = normalize_entry(_translate_references(server.value, client, folder))
    options = _select_options(entry)
    # The bridge may run in another folder than the client.
    if place.scope != "user" and "command" in options:
        options["cwd"] = str(folder / str(options.get("cwd", "")))
    return FoundServer(
        name=server.name,
        client=client.name,
        place=f"{client.title} ({place.scope})",
        path=resolve_place_path(place, machine),
        options=options,
        omission=_find_omission(server.value, options),
        notes=list_unread_keys(entry),
    )


def _find_omission(entry: Any, options: Mapping[str, Any]) -> str:
    """Return why an entry is not imported; empty if it is."""
    if isinstance(entry, Mapping) and is_switched_off(entry):
        return "it is switched off"
    if not is_server_entry(options):
        return "it has neither a command nor a URL"
    if "sandbox" in options and "command" not in options:
        return "it has a sandbox, but runs elsewhere, at a URL"
    words: Sequence[Any] = (options.get("command"), *(options.get("args") or ()))
    if starts_bridge([str(word) for word in words if word]):
        return "it starts mcp-bridge itself"
    return ""


def _select_options(entry: Mapping[str, Any]) -> dict[str, Any]:
    options = {key: entry[key] for key in _OPTIONS if entry.get(key)}
    if entry.get("auth") == "oauth":
        options["auth"] = "oauth"
    if "sandbox" in entry and is_sandbox(entry["sandbox"]):
        options["sandbox"] = entry["sandbox"]
    return options


def _translate_references(value: Any, client: Client, folder: Path) -> Any:
    """Return a value with the references of this client in the form of the settings."""
    if isinstance(value, Mapping):
        return {key: _translate_references(item, client, folder) for key, item in value.items()}
    if isinstance(value, list):
        return [_translate_references(item, client, folder) for item in value]
    if not isinstance(value, str):
        return value
    if client.reference_syntax is None:
        return _escape_text(value, folder)
    text = ""
    end = 0
    for match in re.finditer(client.reference_syntax.pattern, value):
        text += _escape_text(value[end : match.start()], folder)
        default = match.groupdict().get("default")
        reference = f"{match['name']}:-{default}" if default else match["name"]
        text += f"${{{reference}}}"
        end = match.end()
    return text + _escape_text(value[end:], folder)


def _escape_text(text: str, folder: Path) -> str:
    """Replace the placeholders of an editor in a text without references, and escape its other `${`.

    The placeholders are folders, such as `${workspaceFolder}`, and questions, such as `${input:api-key}`.
    """
    text = resolve_places(text, folder)
    escaped_text = ""
    end = 0
    for match in _INPUT.finditer(text):
        escaped_text += text[end : match.start()].replace("${", "$${")
        escaped_text += _to_input_variable(match[1])
        end = match.end()
    return escaped_text + text[end:].replace("${", "$${")


def _replace_inputs(value: Any) -> Any:
    """Replace questions of an editor, such as `${input:api-key}`, by references to variables, such as `${API_KEY}`."""
    if isinstance(value, Mapping):
        return {key: _replace_inputs(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_replace_inputs(item) for item in value]
    if isinstance(value, str):
        return _INPUT.sub(lambda match: _to_input_variable(match[1]), value)
    return value


def _to_input_variable(name: str) -> str:
    """Return a reference to a variable for a question: `${API_KEY}` for `api-key`."""
    variable = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper()
    return f"${{{variable}}}"
