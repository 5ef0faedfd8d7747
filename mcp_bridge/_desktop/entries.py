"""An entry in the form of a client, and back: what an existing entry starts, and in which environment."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop.client import (
    Client,
    ConfigPlace,
    InstalledServer,
    LaunchEnvironment,
    Machine,
    ReferenceSyntax,
    ServerEntry,
    ServerLaunch,
)
from mcp_bridge._desktop.locations import find_project_folder
from mcp_bridge._desktop.table import CLIENTS

BARE_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
"""The PATH that macOS and most Linux desktops give to the programs that they start."""

_DESKTOP_VARIABLES = frozenset(
    ("DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "HOME", "LANG", "LOGNAME", "SHELL", "TMPDIR", "USER", "WAYLAND_DISPLAY")
)
_LONGEST = 3600.0
"""Seconds: a timeout in an entry that is longer, or no number, is ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryCommand:
    """What an entry starts: the command, variables with their values or references, variables passed by name."""

    argv: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    names: Sequence[str] = ()


def build_entry_value(client: Client, place: ConfigPlace, entry: ServerEntry) -> Mapping[str, Any]:
    """Return the entry as a value in a file of this client.

    Raises ConfigError for a path in which the client would see a reference to a variable.
    """
    return render_shape(client, get_entry_shape(client, entry), entry)


def get_entry_shape(client: Client, entry: ServerEntry) -> Mapping[str, Any]:
    """Return the client's shape of such an entry. Raises ConfigError for an address that it cannot have."""
    if entry.url is None:
        return client.shape
    if client.remote_shape is None:
        hint = (
            f"Add the URL in the settings of {client.title} (Connectors), or install the file that the server serves."
        )
        raise ConfigError(f"the file of {client.title} does not support URLs", hint=hint)
    if entry.token_env is not None and not _format_token(client, entry):
        hint = f"Add the token in {client.title} by hand: mcp-bridge does not write secrets into files."
        raise ConfigError(f"{client.title} does not support references to variables", where="--token-env", hint=hint)
    return client.remote_shape


def render_shape(client: Client, shape: Mapping[str, Any], entry: ServerEntry) -> Mapping[str, Any]:
    """Replace the placeholders of a shape. Raises ConfigError as `build_entry_value` does."""
    _check_no_references(client, entry)
    headers = {"Authorization": f"Bearer {_format_token(client, entry)}"} if entry.token_env is not None else {}
    values: dict[str, Any] = {
        "{url}": entry.url,
        "{token}": entry.token_env,
        "{headers}": headers,
        "{options}": {"headers": headers} if headers else {},
        "{name}": entry.name,
        "{command}": entry.command,
        "{args}": list(entry.args),
        "{argv}": [entry.command, *entry.args],
        "{env}": {
            **({name: format_reference(client, name) for name in entry.secrets} if client.reference_syntax else {}),
            **entry.variables,
        },
        "{secrets}": [entry.token_env] if entry.token_env is not None else list(entry.secrets),
    }
    optional = {"{env}", "{secrets}", "{token}", "{headers}", "{options}"}
    rendered = {
        key: values.get(value, value) if isinstance(value, str) else value
        for key, value in shape.items()
        if not (isinstance(value, str) and value in optional and not values[value])
    }
    if entry.variables and "{env}" not in shape.values():
        rendered[client.values_key] = dict(entry.variables)
    return rendered


def _format_token(client: Client, entry: ServerEntry) -> str:
    """The reference to the token of an address; empty for a client that cannot have one."""
    name, shape = entry.token_env or "", client.remote_shape or {}
    if "{token}" in shape.values():
        return name
    return f"${{{name}}}" if "{secrets}" in shape.values() else format_reference(client, name)


def format_reference(client: Client, name: str) -> str:
    """Return the client's reference to a variable; empty for a client without references."""
    return client.reference_syntax.template.replace("{name}", name) if client.reference_syntax is not None else ""


def can_reference_variables(client: Client) -> bool:
    """Whether an entry can name the variables that the bridge needs."""
    return client.reference_syntax is not None or "{secrets}" in client.shape.values()


def find_references(client: Client, value: Any) -> Sequence[str]:
    if client.reference_syntax is None:
        return ()
    if isinstance(value, str):
        return tuple(match["name"] for match in re.finditer(client.reference_syntax.pattern, value))
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, Sequence):
        return tuple(name for item in value for name in find_references(client, item))
    return ()


def merge_entry_values(client: Client, old: Mapping[str, Any], new: Mapping[str, Any]) -> Mapping[str, Any]:
    """Update an entry and keep the user's additions: other keys, and variables that are not references of ours."""
    env = next((key for key, text in client.shape.items() if text == "{env}"), client.values_key)
    optional = {key for key, text in client.shape.items() if text in ("{env}", "{secrets}")}
    result = {**{key: value for key, value in old.items() if key not in optional}, **new}
    if isinstance(old.get(env), Mapping):
        user_values = {name: text for name, text in old[env].items() if text != format_reference(client, name)}
        both = {**user_values, **new.get(env, {})}
        if both or not old[env]:
            result[env] = {name: both[name] for name in [*(name for name in old[env] if name in both), *both]}
    return {key: result[key] for key in [*(key for key in old if key in result), *result]}


def parse_entry_command(client: Client, value: Mapping[str, Any]) -> EntryCommand:
    """Parse what an entry starts, without parts that do not have the form of this client."""
    keys = {text: key for key, text in client.shape.items() if isinstance(text, str)}
    command = value.get(keys.get("{argv}", keys.get("{command}", "")))
    argv = _select_words(command if isinstance(command, list) else [command])
    args = value.get(keys.get("{args}", ""))
    # Goose has `envs` for values alone.
    env = value.get(keys.get("{env}", "env"), value.get("envs"))
    return EntryCommand(
        argv=(*argv, *_select_words(args)),
        env={key: text for key, text in env.items() if isinstance(text, str)} if isinstance(env, Mapping) else {},
        names=_select_words(value.get(keys.get("{secrets}", ""))),
    )


def resolve_launch(installed: InstalledServer, machine: Machine) -> ServerLaunch:
    """Resolve what the client would start for this entry on this machine."""
    client = CLIENTS[installed.client]
    parts = parse_entry_command(client, installed.value)
    # References resolve in the client's own environment; the client may pass on only a part of it.
    resolver = _Resolver(
        dialect=client.reference_syntax, environ=_build_client_environment(client.launch_environment, machine)
    )
    argv = [resolver.resolve_text(word) for word in parts.argv]
    entry_environment = {name: resolver.resolve_text(text) for name, text in parts.env.items()}
    for name in parts.names:
        if name in machine.environ:
            entry_environment[name] = machine.environ[name]
        else:
            resolver.unresolved.append(name)
    cwd = installed.value.get("cwd")
    folder = _find_start_folder(client.launch_environment, machine) / resolver.resolve_text(
        cwd if isinstance(cwd, str) else ""
    )
    return ServerLaunch(
        argv=argv,
        environ={**build_server_environment(client, machine), **entry_environment},
        folder=folder,
        timeout=_read_timeout(client.launch_environment, installed.value),
        unresolved=tuple(dict.fromkeys(resolver.unresolved)),
    )


def build_server_environment(client: Client, machine: Machine) -> Mapping[str, str]:
    environment = _build_client_environment(client.launch_environment, machine)
    names = client.launch_environment.inherited_variables
    return environment if names is None else {name: text for name, text in environment.items() if name.upper() in names}


def _select_words(value: Any) -> Sequence[str]:
    return tuple(word for word in value if isinstance(word, str)) if isinstance(value, list | tuple) else ()


def _check_no_references(client: Client, entry: ServerEntry) -> None:
    for word in (entry.command, *entry.args, entry.url or "", *entry.variables.values()):
        if find_references(client, word):
            hint = f"{client.title} would put the value of a variable there. Use a path without it."
            raise ConfigError(f"'{word}' contains what {client.title} reads as a reference to a variable", hint=hint)


def _build_client_environment(surroundings: LaunchEnvironment, machine: Machine) -> Mapping[str, str]:
    """The environment of the client itself: of the desktop, or of the user's shell."""
    # Windows has one PATH for all programs.
    if not surroundings.is_desktop or machine.system == "win32":
        return dict(machine.environ)
    environ = {name: text for name, text in machine.environ.items() if name in _DESKTOP_VARIABLES}
    return {"HOME": str(machine.home), **environ, "PATH": BARE_PATH}


def _find_start_folder(surroundings: LaunchEnvironment, machine: Machine) -> Path:
    if surroundings.folder == "root":
        return Path(machine.home.anchor)
    return machine.home if surroundings.folder == "home" else find_project_folder(machine)


def _read_timeout(surroundings: LaunchEnvironment, value: Mapping[str, object]) -> float:
    timeout = value.get(surroundings.timeout_key) if surroundings.timeout_key is not None else None
    if isinstance(timeout, int | float) and not isinstance(timeout, bool):
        seconds = float(timeout) * surroundings.timeout_unit
        if 0 < seconds <= _LONGEST:
            return seconds
    return surroundings.timeout


@dataclass(slots=True, kw_only=True)
class _Resolver:
    """Replaces references as a client does, and records those to variables that are not set."""

    dialect: ReferenceSyntax | None
    environ: Mapping[str, str]
    unresolved: list[str] = field(default_factory=list)

    def resolve_text(self, text: str) -> str:
        return re.sub(self.dialect.pattern, self._resolve_reference, text) if self.dialect is not None else text

    def _resolve_reference(self, match: re.Match[str]) -> str:
        name, default = match["name"], match.groupdict().get("default")
        if name in self.environ:
            return self.environ[name]
        if default is not None:
            return str(default)
        self.unresolved.append(name)
        return "" if self.dialect is not None and self.dialect.unset == "empty" else match[0]
