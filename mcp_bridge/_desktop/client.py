"""The types of this package: a client, its files, the machine, and a server in a file.

`table.py` describes each client with these types. The same templates (`Client.shape`) are used to write entries, to
read them, and to find out what a client starts.
"""

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
    """The paths at which the file may be. The first one that exists is used, otherwise the first without a `*`.

    A leading `~` is the home folder, and `{NAME:-~/else}` is the value of an environment variable or a default. Any
    other relative path is in the project. A path with `*` counts as existing if the folder with the `*` exists, because
    that folder shows that an app is installed.
    """
    within: Sequence[str]
    """The keys that lead to the servers; `{folder}` is the project's absolute path."""
    listed: bool = False
    """Whether the servers are a list of items with a `name`, instead of an object by name."""
    opening: str = ""
    """The text with which a new file has to begin."""
    script: Sequence[str] = ()
    """The beginning of the line that adds a server, if the file is a script. The keys of the entry become its options.
    A script is neither read nor edited, and its format has no meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceSyntax:
    """How an entry refers to an environment variable of the client."""

    template: str
    """A reference, in which `{name}` is the name of the variable."""
    pattern: str
    """A regular expression for references. Its group `name` is the variable; a group `default` is its default."""
    unset: Literal["kept", "empty"] = "kept"
    """Whether the client keeps a reference to an unset variable as text, or replaces it by nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCommand:
    """A client's own command for servers.

    `add` and `remove` are its arguments. In them, `{name}`, `{scope}` and `{command}` are replaced by one argument, and
    `{args}` and `{secrets}` by several.
    """

    program: str
    add: Sequence[str]
    remove: Sequence[str]
    scopes: Sequence[Scope]
    """The scopes in which the command can change servers."""
    secret: Sequence[str] = ()
    """The arguments for one secret, with `{secret}` and `{reference}`; empty if the command cannot pass secrets."""
    keeps_references: bool = True
    """Whether the command keeps the references of other servers, instead of replacing them by their values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchEnvironment:
    """How a client starts its servers."""

    is_desktop: bool = False
    """Whether the desktop starts the client, with a bare PATH and without the variables of the user's shell."""
    inherited_variables: Sequence[str] | None = None
    """The variables that the client passes on to servers; None if it passes on all that it has."""
    has_own_secrets: bool = False
    """Whether the client adds variables from a file or a keyring, which the bridge does not read."""
    folder: Literal["project", "home", "root"] = "project"
    """The folder in which the client starts servers."""
    timeout: float = 60.0
    """Seconds for which the client waits for the first response of a server."""
    timeout_key: str | None = None
    """The key of an entry that sets another timeout."""
    early_tools_key: str | None = None
    """The key of an entry without which the first request to the model may lack the tools of the server."""
    first_request: float | None = None
    """Seconds until the first request to the model, which does not wait for servers that are still starting."""
    timeout_unit: float = 1.0
    """The unit of the value under `timeout_key`, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A program that starts MCP servers, described as data."""

    name: str
    title: str
    places: Sequence[ConfigPlace]
    """The first one is the default."""
    shape: Mapping[str, Any]
    """An entry with placeholders: `{name}`, `{command}`, `{args}`, `{argv}` (the command and its arguments), `{env}`
    (each secret with its reference) and `{secrets}` (the names of the secrets). Without secrets, the keys of the last
    two are left out."""
    remote_shape: Mapping[str, Any] | None = None
    """An entry for the URL of a server, with `{name}`, `{url}`, `{token}` (the variable with the token), `{secrets}`
    (a list of it), `{headers}` and `{options}` (an object with the headers). Without a token, the keys of the last four
    are left out. None if the client's file has no URLs."""
    values_key: str = "env"
    """The key for the values of variables, if the shape has no `{env}`."""
    reference_syntax: ReferenceSyntax | None = None
    own_command: ClientCommand | None = None
    programs: Sequence[str] = ()
    """Programs on the PATH that show that the client is installed."""
    install_traces: Mapping[System, Sequence[str]] = field(default_factory=dict)
    """Paths that show that the client is installed, in the form of `ConfigPlace.paths`."""
    link: str | None = None
    """A URL that installs a server when it is opened. Its placeholders are `{name}`, `{full}` (the entry as JSON, with
    its name), `{base64}` (the entry as JSON in base64), `{command}`, `{args}` (`&arg=` and a value for each) and
    `{secrets}` (`&env=` and a name for each)."""
    link_programs: Sequence[str] = ()
    """The only commands that the client accepts from a link; empty if it accepts any."""
    launch_environment: LaunchEnvironment = field(default_factory=LaunchEnvironment)
    next_steps: str = ""
    """What the user has to do before the client sees a change."""
    removal_steps: str = ""
    """What the user has to do after a removal; empty if nothing."""
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
    """The environment variables that the bridge needs. An entry has references to them, never their values."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables with values that the user wants in the entry."""
    url: str | None = None
    """The URL of a server that the client reaches over HTTP instead of starting it. The command is then empty."""
    token_env: str | None = None
    """The variable with the bearer token for the URL. An entry has a reference to it, never its value."""


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
