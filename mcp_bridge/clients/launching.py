"""What a client would start for an entry, and in which environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mcp_bridge.clients.client import Client, Dialect, Installed, Launch, Machine, Surroundings
from mcp_bridge.clients.locating import project
from mcp_bridge.clients.shaping import started
from mcp_bridge.clients.table import CLIENTS

BARE_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
"""What macOS and most Linux desktops give to the programs that they start."""
_OF_DESKTOPS = frozenset(
    ("DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "HOME", "LANG", "LOGNAME", "SHELL", "TMPDIR", "USER", "WAYLAND_DISPLAY")
)
_LONGEST = 3600.0
"""Seconds: an entry that says more, or what is no number, is not believed."""


def launch(installed: Installed, machine: Machine) -> Launch:
    """What the client would start for this entry, on this machine."""
    client = CLIENTS[installed.client]
    given = environment(client, machine)
    says = started(client, installed.value)
    # References lead into what the client itself has, of which it may hand on only a part.
    reader = _Reader(dialect=client.dialect, environ=_of_client(client.surroundings, machine))
    argv = [reader.replaced(word) for word in says.argv]
    own = {name: reader.replaced(text) for name, text in says.env.items()}
    for name in says.names:
        if name in machine.environ:
            own[name] = machine.environ[name]
        else:
            reader.unresolved.append(name)
    cwd = installed.value.get("cwd")
    return Launch(
        argv=argv,
        environ={**given, **own},
        folder=_folder(client.surroundings, machine) / reader.replaced(cwd if isinstance(cwd, str) else ""),
        patience=_patience(client.surroundings, installed.value),
        unresolved=tuple(dict.fromkeys(reader.unresolved)),
    )


def environment(client: Client, machine: Machine) -> Mapping[str, str]:
    """What a server of this client finds in its environment when the entry says nothing."""
    has = _of_client(client.surroundings, machine)
    names = client.surroundings.inherits
    return has if names is None else {name: text for name, text in has.items() if name.upper() in names}


def _of_client(surroundings: Surroundings, machine: Machine) -> Mapping[str, str]:
    """The environment of the client itself: of the desktop, or of the person's shell."""
    if not surroundings.desktop or machine.system == "win32":  # Windows has one PATH for all programs
        return dict(machine.environ)
    kept = {name: text for name, text in machine.environ.items() if name in _OF_DESKTOPS}
    return {"HOME": str(machine.home), **kept, "PATH": BARE_PATH}


def _folder(surroundings: Surroundings, machine: Machine) -> Path:
    if surroundings.folder == "root":
        return Path(machine.home.anchor)
    return machine.home if surroundings.folder == "home" else project(machine)


def _patience(surroundings: Surroundings, value: Mapping[str, object]) -> float:
    said = value.get(surroundings.patience_key) if surroundings.patience_key is not None else None
    if isinstance(said, int | float) and not isinstance(said, bool):
        seconds = float(said) * surroundings.patience_unit
        if 0 < seconds <= _LONGEST:
            return seconds
    return surroundings.patience


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Replaces references as a client does, and notes those that lead nowhere."""

    dialect: Dialect | None
    environ: Mapping[str, str]
    unresolved: list[str] = field(default_factory=list)

    def replaced(self, text: str) -> str:
        """The text with what its references lead to."""
        return re.sub(self.dialect.read, self._value, text) if self.dialect is not None else text

    def _value(self, match: re.Match[str]) -> str:
        name, default = match["name"], match.groupdict().get("default")
        if name in self.environ:
            return self.environ[name]
        if default is not None:
            return default
        self.unresolved.append(name)
        return "" if self.dialect is not None and self.dialect.unset == "empty" else match[0]
