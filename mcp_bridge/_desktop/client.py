"""The data of this package: a client, its files, the machine, and a server in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mcp_bridge._settings.documents.syntax import Format

Scope = Literal["user", "project", "local"]
System = Literal["darwin", "linux", "win32"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine of a user: its folders, its environment and its system. Tests pass their own."""

    system: System
    home: Path
    environ: Mapping[str, str]
    folder: Path
    """The current folder: the project, for clients that have projects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigPlace:
    """One file of a client, and where its servers are in it."""

    scope: Scope
    format: Format
    paths: Mapping[System, Sequence[str]]
    """Where it may be: the first that exists, otherwise the first without a `*`. A leading `~` is the home folder,
    `{NAME:-~/else}` an environment variable; any other relative path is in the project. A path with `*` counts as
    existing when the folder with the `*` does: that folder shows that an app is installed."""
    within: Sequence[str]
    """The keys that lead to the servers; `{folder}` is the project's absolute path."""
    listed: bool = False
    """The servers are a list whose items have a `name`, not an object by name."""
    opening: str = ""
    """How a new file has to begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceSyntax:
    """How an entry refers to an environment variable of the client."""

    template: str
    """A reference; `{name}` is the variable."""
    pattern: str
    """A pattern of references, with the groups `name` and, where there can be one, `default`."""
    unset: Literal["kept", "empty"] = "kept"
    """Whether the client keeps a reference to an unset variable as text, or replaces it by nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCommand:
    """A client's own command line. `{name}`, `{scope}` and `{command}` are replaced by one argument, `{args}` and
    `{secrets}` by several."""

    program: str
    add: Sequence[str]
    remove: Sequence[str]
    scopes: Sequence[Scope]
    """The scopes that it can add a server to."""
    secret: Sequence[str] = ()
    """The arguments for one secret, with `{secret}` and `{reference}`; none: it cannot pass secrets."""
    keeps_references: bool = True
    """Whether it keeps the references of other servers, instead of replacing them by their values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchEnvironment:
    """The environment of the servers of a client."""

    is_desktop: bool = False
    """The desktop starts the client, with a bare PATH and no variables of the user's shell."""
    inherited_variables: Sequence[str] | None = None
    """The variables that it passes on; None: all of its own."""
    has_own_secrets: bool = False
    """It adds variables from a file or a keyring, which the bridge does not read."""
    folder: Literal["project", "home", "root"] = "project"
    timeout: float = 60.0
    """Seconds that it waits for the first response."""
    timeout_key: str | None = None
    """The key of an entry that overrides it."""
    wait_key: str | None = None
    """The key of an entry that makes it wait for the server before its first request, which it otherwise does not."""
    first_request: float | None = None
    """Seconds until its first request to the model, which does not wait for servers that are still starting."""
    timeout_unit: float = 1.0
    """The unit of that key, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A program that starts MCP servers, described as data."""

    name: str
    title: str
    places: Sequence[ConfigPlace]
    """The first one is the default."""
    shape: Mapping[str, Any]
    """An entry with placeholders: `{name}`, `{command}`, `{args}`, `{argv}` (the command and its arguments), `{env}`
    (each secret with its reference) and `{secrets}` (their names). The last two are left out where they are empty."""
    remote_shape: Mapping[str, Any] | None = None
    """An entry for an address, with `{name}`, `{url}`, `{token}` (the variable with the token), `{headers}` and
    `{options}` (an object with the headers), which are left out without a token. None: its file has no addresses."""
    values_key: str = "env"
    """The key for values of variables in an entry without `{env}`."""
    reference_syntax: ReferenceSyntax | None = None
    own_command: ClientCommand | None = None
    programs: Sequence[str] = ()
    """Programs on the PATH that show that it is installed."""
    install_traces: Mapping[System, Sequence[str]] = field(default_factory=dict)
    """Paths that show that it is installed, written like those of a `ConfigPlace`."""
    link: str | None = None
    """An address that installs a server when it is opened: `{name}`, `{full}` (JSON with the name), `{base64}` (JSON
    without), or `{command}`, `{args}` (an `&arg=` each) and `{secrets}` (an `&env=` each)."""
    link_programs: Sequence[str] = ()
    """The only commands that it accepts from a link; none: any."""
    launch_environment: LaunchEnvironment = field(default_factory=LaunchEnvironment)
    next_steps: str = ""
    """What the user has to do before the client sees a change."""
    removal_steps: str = ""
    """The same after a removal; empty: nothing."""
    secrets_advice: str = ""
    """What the user has to do so that the client finds the variables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEntry:
    """A server to install, independent of any client's format."""

    name: str
    command: str
    """The absolute path of the program."""
    args: Sequence[str] = ()
    secrets: Sequence[str] = ()
    """The environment variables that the bridge needs: references are written, never values."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables whose values the user wants in the entry."""
    url: str | None = None
    """The address of a server that is not started but reached over HTTP; there is no command then."""
    token_env: str | None = None
    """The variable with the bearer token for the address: a reference is written, never the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledServer:
    """A server in a client's file."""

    client: str
    place: ConfigPlace
    path: Path
    name: str
    value: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLaunch:
    """The launch of an entry: its command, environment and folder."""

    argv: Sequence[str]
    environ: Mapping[str, str]
    folder: Path
    timeout: float
    """Seconds that the client waits for the first response."""
    unresolved: Sequence[str] = field(default=())
    """Variables that the entry refers to and that are not set."""
