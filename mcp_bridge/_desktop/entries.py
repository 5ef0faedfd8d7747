"""Converts an entry to the form of a client, and back to the command, environment and folder of its process."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop.client import (
    Client,
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
"""Other variables that a desktop gives to its programs. Those of the user's shell are missing."""
_OPTIONAL = ("{env}", "{secrets}", "{token}", "{headers}", "{options}")
"""Placeholders of `Client.shape` and `Client.remote_shape`. If there is no value for one, its key is left out."""
_MAX_TIMEOUT = 3600.0
"""The maximum timeout in an entry, in seconds. A longer one is ignored, as is one that is not a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryCommand:
    """The command of an entry.

    `env` are its variables with values or references. `names` are the variables to pass on.
    """

    argv: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    names: Sequence[str] = ()


def build_entry_value(client: Client, entry: ServerEntry) -> Mapping[str, Any]:
    """Return the entry as a value in a file of this client.

    Raises ConfigError for a path in which the client would see a reference to a variable.
    """
    return render_shape(client, get_entry_shape(client, entry), entry)


def get_entry_shape(client: Client, entry: ServerEntry) -> Mapping[str, Any]:
    """Return the client's shape for a command or a URL. Raises ConfigError if the client does not support the URL."""
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
    required: dict[Any, Any] = {
        "{url}": entry.url,
        "{name}": entry.name,
        "{command}": entry.command,
        "{args}": list(entry.args),
        "{argv}": [entry.command, *entry.args],
    }
    optional: dict[Any, Any] = {"{secrets}": list(entry.secrets), "{env}": dict(entry.variables)}
    if client.reference_syntax is not None:
        references = {name: format_reference(client, name) for name in entry.secrets}
        optional["{env}"] = {**references, **entry.variables}
    if entry.token_env is not None:
        headers = {"Authorization": f"Bearer {_format_token(client, entry)}"}
        optional["{secrets}"] = [entry.token_env]
        optional |= {"{token}": entry.token_env, "{headers}": headers, "{options}": {"headers": headers}}
    value: dict[str, Any] = {}
    for key, template in shape.items():
        if template in _OPTIONAL:
            if optional.get(template):
                value[key] = optional[template]
        elif isinstance(template, str):
            value[key] = required.get(template, template)
        else:
            value[key] = template
    if entry.variables and "{env}" not in shape.values():
        # This client has one key for the names of variables, and another one for values.
        value[client.values_key] = dict(entry.variables)
    return value


def _format_token(client: Client, entry: ServerEntry) -> str:
    """Return the text in an entry for the token of a URL; empty if the client does not support one.

    If the client has a key for it, the result is the name of the variable. If the client has a key for a list of names,
    it is a reference in the form of Goose. Otherwise, it is a reference in the form of the client.
    """
    name = entry.token_env or ""
    placeholders = (client.remote_shape or {}).values()
    if "{token}" in placeholders:
        return name
    if "{secrets}" in placeholders:
        return f"${{{name}}}"
    return format_reference(client, name)


def format_reference(client: Client, name: str) -> str:
    """Return the client's reference to a variable; empty if the client has no references."""
    if client.reference_syntax is None:
        return ""
    return client.reference_syntax.template.replace("{name}", name)


def can_reference_variables(client: Client) -> bool:
    """Return whether entries of this client can refer to variables, or name them."""
    return client.reference_syntax is not None or "{secrets}" in client.shape.values()


def find_references(client: Client, value: Any) -> Sequence[str]:
    """Return the variables of all references in a value, and in the lists and mappings in it."""
    if client.reference_syntax is None:
        return ()
    if isinstance(value, str):
        return tuple(match["name"] for match in re.finditer(client.reference_syntax.pattern, value))
    if isinstance(value, Mapping):
        value = list(value.values())
    names: list[str] = []
    if isinstance(value, Sequence):
        for item in value:
            names += find_references(client, item)
    return tuple(names)


def merge_entry_values(client: Client, old: Mapping[str, Any], new: Mapping[str, Any]) -> Mapping[str, Any]:
    """Update an entry. Keep the additions of the user: other keys, and variables with values."""
    keys = _map_placeholders(client)
    replaced_keys = (keys.get("{env}"), keys.get("{secrets}"))
    merged = {key: value for key, value in old.items() if key not in replaced_keys} | dict(new)
    env_key = keys.get("{env}", client.values_key)
    old_variables = old.get(env_key)
    if isinstance(old_variables, Mapping):
        user_values = {name: text for name, text in old_variables.items() if text != format_reference(client, name)}
        variables = {**user_values, **new.get(env_key, {})}
        # A mapping without variables is kept if the user wrote it so.
        if variables or not old_variables:
            merged[env_key] = _keep_order(variables, old_variables)
    return _keep_order(merged, old)


def _map_placeholders(client: Client) -> dict[str, str]:
    """Return the key of each placeholder in the client's shape."""
    return {text: key for key, text in client.shape.items() if isinstance(text, str)}


def _keep_order(values: Mapping[str, Any], order: Iterable[str]) -> dict[str, Any]:
    """Return the values with the keys of `order` first."""
    keys = dict.fromkeys([*order, *values])
    return {key: values[key] for key in keys if key in values}


def parse_entry_command(client: Client, value: Mapping[str, Any]) -> EntryCommand:
    """Parse the command of an entry. Values of other types than in the client's shape are ignored."""
    keys = _map_placeholders(client)
    command_key = keys.get("{argv}") or keys.get("{command}", "")
    command = value.get(command_key)
    argv = _select_words(command if isinstance(command, list) else [command])
    args = _select_words(value.get(keys.get("{args}", "")))
    # Goose has another key for variables with values.
    env = value.get(keys.get("{env}", "env"), value.get("envs"))
    variables = env.items() if isinstance(env, Mapping) else ()
    return EntryCommand(
        argv=(*argv, *args),
        env={name: text for name, text in variables if isinstance(text, str)},
        names=_select_words(value.get(keys.get("{secrets}", ""))),
    )


def resolve_launch(installed: InstalledServer, machine: Machine) -> ServerLaunch:
    """Return the command, environment and folder with which the client starts this entry on this machine."""
    client = CLIENTS[installed.client]
    command = parse_entry_command(client, installed.value)
    # The client replaces references by values of its own environment, of which servers may get only a part.
    environ = _build_client_environment(client.launch_environment, machine)
    resolver = _Resolver(syntax=client.reference_syntax, environ=environ)
    argv = [resolver.resolve_text(word) for word in command.argv]
    entry_environment = {name: resolver.resolve_text(text) for name, text in command.env.items()}
    for name in command.names:
        if name in machine.environ:
            entry_environment[name] = machine.environ[name]
        else:
            resolver.unresolved.append(name)
    folder = _find_start_folder(client.launch_environment, machine)
    cwd = installed.value.get("cwd")
    if isinstance(cwd, str):
        folder /= resolver.resolve_text(cwd)
    return ServerLaunch(
        argv=argv,
        environ={**build_server_environment(client, machine), **entry_environment},
        folder=folder,
        timeout=_read_timeout(client.launch_environment, installed.value),
        unresolved=tuple(dict.fromkeys(resolver.unresolved)),
    )


def build_server_environment(client: Client, machine: Machine) -> Mapping[str, str]:
    """Return the common environment of the client's servers."""
    environment = _build_client_environment(client.launch_environment, machine)
    names = client.launch_environment.inherited_variables
    if names is None:
        return environment
    return {name: text for name, text in environment.items() if name.upper() in names}


def _select_words(value: Any) -> Sequence[str]:
    if not isinstance(value, list):
        return ()
    return tuple(word for word in value if isinstance(word, str))


def _check_no_references(client: Client, entry: ServerEntry) -> None:
    """Raise ConfigError if the client would read a part of the entry's own texts as a reference."""
    for word in (entry.command, *entry.args, entry.url or "", *entry.variables.values()):
        if find_references(client, word):
            hint = f"{client.title} would put the value of a variable there. Use a path without it."
            raise ConfigError(f"'{word}' contains what {client.title} reads as a reference to a variable", hint=hint)


def _build_client_environment(environment: LaunchEnvironment, machine: Machine) -> Mapping[str, str]:
    """Return the environment of the client itself, as the desktop or the user's shell sets it."""
    # Windows has the same PATH for programs of the desktop and of the shell.
    if not environment.is_desktop or machine.system == "win32":
        return dict(machine.environ)
    environ = {name: text for name, text in machine.environ.items() if name in _DESKTOP_VARIABLES}
    return {"HOME": str(machine.home), **environ, "PATH": BARE_PATH}


def _find_start_folder(environment: LaunchEnvironment, machine: Machine) -> Path:
    if environment.folder == "root":
        return Path(machine.home.anchor)
    if environment.folder == "home":
        return machine.home
    return find_project_folder(machine)


def _read_timeout(environment: LaunchEnvironment, value: Mapping[str, object]) -> float:
    timeout = value.get(environment.timeout_key or "")
    if isinstance(timeout, int | float) and not isinstance(timeout, bool):
        seconds = float(timeout) * environment.timeout_unit
        if 0 < seconds <= _MAX_TIMEOUT:
            return seconds
    return environment.timeout


@dataclass(slots=True, kw_only=True)
class _Resolver:
    """Replaces references as a client does, and records the unset variables."""

    syntax: ReferenceSyntax | None
    environ: Mapping[str, str]
    unresolved: list[str] = field(default_factory=list)

    def resolve_text(self, text: str) -> str:
        if self.syntax is None:
            return text
        return re.sub(self.syntax.pattern, self._resolve_reference, text)

    def _resolve_reference(self, match: re.Match[str]) -> str:
        name = match["name"]
        default = match.groupdict().get("default")
        if name in self.environ:
            return self.environ[name]
        if default is not None:
            return str(default)
        self.unresolved.append(name)
        if self.syntax is not None and self.syntax.unset == "empty":
            return ""
        return match[0]
