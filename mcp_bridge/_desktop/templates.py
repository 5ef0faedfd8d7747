"""Templates for the descriptions of clients: paths, references to variables, shapes of entries and advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mcp_bridge._desktop.client import ConfigPlace, ReferenceSyntax, System
from mcp_bridge._settings.documents.syntax import Format

SDK_VARIABLES = (
    "HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER",
    "APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PROCESSOR_ARCHITECTURE", "PROGRAMFILES",
    "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE",
)  # fmt: skip
"""The variables that the transport of the TypeScript SDK passes on: its list for POSIX, then its list for Windows."""

VARIABLE_NAME = r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
_DEFAULT = r"(?::-(?P<default>[^}]*))?"
SHELL_REFERENCES = ReferenceSyntax(template="${{name}}", pattern=rf"\$\{{{VARIABLE_NAME}{_DEFAULT}\}}")
"""References such as `${NAME}` and `${NAME:-default}`."""
PLAIN_REFERENCES = ReferenceSyntax(template="${{name}}", pattern=rf"\$\{{{VARIABLE_NAME}\}}")
"""References such as `${NAME}`, without defaults."""
BARE_REFERENCES = ReferenceSyntax(template="${{name}}", pattern=rf"\$\{{?{VARIABLE_NAME}(?:{_DEFAULT}\}})?")
"""References such as `${NAME}`, `${NAME:-default}` and `$NAME`."""
EDITOR_REFERENCES = ReferenceSyntax(template="${env:{name}}", pattern=rf"\$\{{env:{VARIABLE_NAME}\}}", unset="empty")
"""References such as `${env:NAME}`, as VS Code has them."""
OPENCODE_REFERENCES = ReferenceSyntax(template="{env:{name}}", pattern=rf"\{{env:{VARIABLE_NAME}\}}", unset="empty")
"""References such as `{env:NAME}`, as opencode and Kilo Code have them."""

ROAMING = "{APPDATA:-~/AppData/Roaming}"
LOCAL = "{LOCALAPPDATA:-~/AppData/Local}"
CONFIG = "{XDG_CONFIG_HOME:-~/.config}"
SUPPORT = "~/Library/Application Support"

PLAIN = {"command": "{command}", "args": "{args}"}
STDIO = {**PLAIN, "env": "{env}"}

REMOTE = {"url": "{url}", "headers": "{headers}"}
OPENCODE_STDIO = {"type": "local", "command": "{argv}", "enabled": True, "environment": "{env}"}
OPENCODE_REMOTE = {"type": "remote", **REMOTE, "enabled": True}
"""The entries of opencode and Kilo Code."""

NEW_SESSION = "Start a new session; open sessions still have it."
NO_REFERENCES = (
    "{title} does not support references to variables, and mcp-bridge never writes a value here: without more "
    "setup, the bridge will not start in it. "
)
DESKTOP_VARIABLES = "Set the variables for all programs of your desktop, or give them a default in the settings."
LOGIN_SHELL = "{title} takes its variables from your login shell: export them in its profile, then restart {title}."
TERMINAL = "Export them in your shell's profile: {title} takes them from the terminal in which it is started."


def make_paths(*paths: str) -> Mapping[System, Sequence[str]]:
    return {"darwin": paths, "linux": paths, "win32": paths}


def make_app_paths(path: str, *, before: Sequence[str] = ()) -> Mapping[System, Sequence[str]]:
    """Return a path in the folder of each system for the settings of desktop programs, after those in `before`."""
    folders: Mapping[System, str] = {"darwin": SUPPORT, "linux": CONFIG, "win32": ROAMING}
    return {system: (*before, f"{folder}/{path}") for system, folder in folders.items()}


def make_places(
    format: Format, key: str, user: str | Mapping[System, Sequence[str]], project: str | Sequence[str] = ()
) -> Sequence[ConfigPlace]:
    """Return the place of the user and, if there are paths for it, that of a project. Both have servers under `key`."""
    paths = make_paths(user) if isinstance(user, str) else user
    places = [ConfigPlace(scope="user", format=format, paths=paths, within=(key,))]
    if project:
        paths = make_paths(project) if isinstance(project, str) else make_paths(*project)
        places.append(ConfigPlace(scope="project", format=format, paths=paths, within=(key,)))
    return tuple(places)
