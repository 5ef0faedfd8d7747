"""Collects the servers in the files of clients, and writes them as a settings file without their secrets."""

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
    is_server_entry,
    is_switched_off,
    list_unread_keys,
    normalize_entry,
    resolve_places,
)
from mcp_bridge._settings.servers import list_entry_places

_KEPT = ("command", "args", "env", "cwd", "url", "transport", "headers", "start_timeout", "include", "exclude")
_VARIABLE = re.compile(r"(?<!\$)\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")
_REFERENCE = re.compile(r"(?<!\$)\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)")
_INPUT = re.compile(r"\$\{input:([^}]+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundServer:
    """A server in a file. `place` names the file for users, `options` are those of a source, with its secrets."""

    name: str
    client: str
    place: str
    path: Path
    options: Mapping[str, Any]
    omission: str = ""
    """Why it is left out; empty if it is not."""
    notes: Sequence[str] = ()
    """Notes about unread keys of its entry."""

    @property
    def identity(self) -> str:
        """Equal for two entries of the same server."""
        return json.dumps(self.options, sort_keys=True, default=str)


@dataclass(slots=True, kw_only=True)
class ServerImport:
    """The imported servers by their new names, the omitted ones, and the variables to set."""

    taken: dict[str, list[FoundServer]] = field(default_factory=dict)
    left_out: list[FoundServer] = field(default_factory=list)
    problems: list[ConfigError] = field(default_factory=list)
    secrets: SecretCollector = field(default_factory=SecretCollector)

    def add_server(self, found: FoundServer) -> None:
        """Add a server once, however many files have it."""
        if found.omission:
            self.left_out.append(found)
            return
        for twins in self.taken.values():
            if twins[0].identity == found.identity:
                twins.append(found)
                return
        name, number = found.name, 1
        while name in self.taken:
            name = f"{found.name}-{number if number > 1 else found.client}"
            number += 1
        self.taken[name] = [found]

    def render_settings(self) -> str:
        """Return the settings file as YAML."""
        from ruamel.yaml import YAML

        yaml = YAML()
        yaml.indent(mapping=2, sequence=4, offset=2)
        yaml.width = 4096
        options_text = json.dumps([servers[0].options for servers in self.taken.values()], default=str)
        self.secrets.reserved = frozenset(_REFERENCE.findall(options_text))
        lines = ["# Made by `mcp-bridge import`. Secrets are references to variables: ${NAME}.", "sources:"]
        for name, servers in self.taken.items():
            where = f"{servers[0].path}, {name}"
            source = {"type": "mcp", "name": name, **self.secrets.replace_secrets(name, servers[0].options, where)}
            text = io.StringIO()
            yaml.dump({"sources": [source]}, text)
            lines += [f"  # {', '.join(server.place for server in servers)}", *text.getvalue().splitlines()[1:]]
        return "\n".join(lines) + "\n"


def find_other_variables(text: str, secrets: SecretCollector) -> list[str]:
    """Return the variables of settings, without those that replace secrets."""
    names = dict.fromkeys(match[1] for match in _VARIABLE.finditer(text))
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
            options, notes = _select_options(_replace_inputs(entry)), list_unread_keys(entry)
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
    entry = normalize_entry(_translate(server.value, client, folder))
    options = _select_options(entry)
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
    if isinstance(entry, Mapping) and is_switched_off(entry):
        return "it is switched off"
    if not is_server_entry(options):
        return "it has neither a command nor a URL"
    words: Sequence[Any] = (options.get("command"), *(options.get("args") or ()))
    return "it starts mcp-bridge itself" if starts_bridge([str(word) for word in words if word]) else ""


def _select_options(entry: Mapping[str, Any]) -> dict[str, Any]:
    options = {key: entry[key] for key in _KEPT if entry.get(key)}
    if entry.get("auth") == "oauth":
        options["auth"] = "oauth"
    return options


def _translate(value: Any, client: Client, folder: Path) -> Any:
    """Return a value with the references of this client in the form of the settings."""
    if isinstance(value, Mapping):
        return {key: _translate(item, client, folder) for key, item in value.items()}
    if isinstance(value, list):
        return [_translate(item, client, folder) for item in value]
    if not isinstance(value, str):
        return value
    syntax, texts, end = client.reference_syntax, [], 0
    for match in re.finditer(syntax.pattern, value) if syntax is not None else ():
        default = match.groupdict().get("default")
        texts += [
            _escape(value[end : match.start()], folder),
            f"${{{match['name']}{f':-{default}' if default else ''}}}",
        ]
        end = match.end()
    return "".join([*texts, _escape(value[end:], folder)])


def _escape(text: str, folder: Path) -> str:
    """Replace the folders of an editor in a text, and escape its other `${`."""
    parts = _INPUT.split(resolve_places(text, folder))
    escaped_texts = [part.replace("${", "$${") for part in parts[::2]]
    names = [_to_input_variable(part) for part in parts[1::2]]
    return "".join(piece for pair in zip(escaped_texts, [*names, ""], strict=True) for piece in pair)


def _replace_inputs(value: Any) -> Any:
    """Replace the questions of an editor in a value by references to variables."""
    if isinstance(value, Mapping):
        return {key: _replace_inputs(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_replace_inputs(item) for item in value]
    if isinstance(value, str):
        return _INPUT.sub(lambda match: _to_input_variable(match[1]), value)
    return value


def _to_input_variable(name: str) -> str:
    return f"${{{re.sub(r'[^A-Za-z0-9]+', '_', name).strip('_').upper()}}}"
