"""The words of this room: a client, the files it has, the machine they are on, and a server as it stands in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mcp_bridge.documents.edit import Format

Scope = Literal["user", "project", "local"]
System = Literal["darwin", "linux", "win32"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """All that decides where files are and what would be started: given, never asked of the process."""

    system: System
    home: Path
    environ: Mapping[str, str]
    folder: Path
    """Where the person stands: the project of clients that know projects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One file of a client, and where in it its servers are."""

    scope: Scope
    format: Format
    paths: Mapping[System, Sequence[str]]
    """Where it may be, the first that is there; none of them there: the first without a `*`. A leading `~` is the
    home, `{NAME:-~/else}` a variable of the environment, and a path that begins with neither is the project's. A path
    with `*` is there as soon as the folder that the `*` stands in is: it is the mark of an app that is installed."""
    within: Sequence[str]
    """The keys that lead to the servers; `{folder}` stands for the project's absolute path."""
    listed: bool = False
    """The servers are a list whose items have a `name`, not an object by name."""
    opening: str = ""
    """What a new file has to begin with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How an entry refers to a variable of the environment that the client has."""

    write: str
    """A reference; `{name}` stands for the variable."""
    read: str
    """A pattern of references, with the groups `name` and, where there can be one, `default`."""
    unset: Literal["kept", "empty"] = "kept"
    """What becomes of a reference to a variable that is not set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCommand:
    """A client's own command line. `{name}`, `{scope}` and `{command}` stand for a word, `{args}` and `{secrets}` for
    some."""

    program: str
    add: Sequence[str]
    remove: Sequence[str]
    scopes: Sequence[Scope]
    """Where it can put a server."""
    secret: Sequence[str] = ()
    """The words for one secret, with `{secret}` and `{reference}`; none: it cannot be told of secrets."""
    keeps_references: bool = True
    """References of other servers are still references after it has written the file, not their values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a client gives to a server that it starts."""

    desktop: bool = False
    """It is started by the desktop, whose environment has a bare PATH and nothing of the person's shell."""
    inherits: Sequence[str] | None = None
    """The variables that are handed on; None: all that the client has."""
    keeps_secrets: bool = False
    """It has variables of its own besides, in a file or a keyring, which are not looked into."""
    folder: Literal["project", "home", "root"] = "project"
    patience: float = 60.0
    """Seconds that it waits for the first answer."""
    patience_key: str | None = None
    """The key of an entry that says otherwise."""
    patience_unit: float = 1.0
    """Seconds that one of that key's is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A program that starts MCP servers. All that is particular about one stands here, as data."""

    name: str
    title: str
    places: Sequence[Place]
    """The first one's scope is meant where none is named."""
    shape: Mapping[str, Any]
    """An entry with placeholders: `{name}`, `{command}`, `{args}`, `{argv}` (the command and its arguments), `{env}`
    (each secret with its reference) and `{secrets}` (their names). What stays empty of the last two is left out."""
    dialect: Dialect | None = None
    own: OwnCommand | None = None
    programs: Sequence[str] = ()
    """Names on the PATH that say that it is installed."""
    traces: Mapping[System, Sequence[str]] = field(default_factory=dict)
    """Paths that say so, written as those of a Place."""
    link: str | None = None
    """An address that installs a server when it is opened: `{name}`, `{full}` (JSON with the name), `{base64}` (JSON
    without), or `{command}`, `{args}` (an `&arg=` each) and `{secrets}` (an `&env=` each)."""
    link_programs: Sequence[str] = ()
    """The only commands that it takes from a link; none: any."""
    surroundings: Surroundings = field(default_factory=Surroundings)
    after: str = ""
    """What the person has to do before the client sees a change."""
    after_removal: str = ""
    """The same for a server that was taken out; empty: nothing."""
    secrets: str = ""
    """What the person has to do so that the client finds the variables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A server to be put into a client's file, in no client's dialect yet."""

    name: str
    command: str
    """The absolute path of the program."""
    args: Sequence[str] = ()
    secrets: Sequence[str] = ()
    """Names of the environment variables that the bridge needs: a reference is written, never a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A server as it stands in a client's file."""

    client: str
    place: Place
    path: Path
    name: str
    value: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What a client would start for an entry: the command, its environment and its folder."""

    argv: Sequence[str]
    environ: Mapping[str, str]
    folder: Path
    patience: float
    """Seconds that the client waits for the first answer."""
    unresolved: Sequence[str] = field(default=())
    """References in the entry that lead nowhere: names of variables that are not set."""
