"""Converts an entry for one server, as an MCP client writes it, to the form of the settings.

Clients agree on `command`, `args`, `env` and `url`, and differ in the rest: the names of further keys, a command as one
list, variables that are only named, the forms of references, and the ways to sign in. `normalize_entry` converts all of
that. It keeps keys that it does not know, and `list_unread_keys` describes those that change what a server gets.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Json = Mapping[str, Any]

_RENAMED: Mapping[str, str] = {
    "cmd": "command",
    "environment": "env",
    "envs": "env",
    "working_directory": "cwd",
    "startup_timeout_sec": "start_timeout",
    "serverUrl": "url",
    "httpUrl": "url",
    "uri": "url",
    "http_headers": "headers",
    "includeTools": "include",
    "enabled_tools": "include",
    "available_tools": "include",
    "tools": "include",
    "excludeTools": "exclude",
    "disabled_tools": "exclude",
    "disabledTools": "exclude",
}
"""Keys of clients, and the keys of the settings that mean the same."""
_UNREAD: Mapping[str, str] = {
    "envFile": "Write its variables into `env`, or set them where the bridge starts",
    "headersHelper": "Write the headers into `headers`, with references to variables",
    "authProviderType": "Write the header into `headers`, with a reference to a variable",
}
"""Keys of clients that change what a server gets, and what to do instead."""
_SANDBOX_KEYS = frozenset({"type", "allow_addresses", "read", "write"})
"""The keys of a sandbox in the settings, except `network`, which has other forms in the files of some clients."""
_BUILT_IN = frozenset({"builtin", "platform", "frontend", "inline_python"})
"""Types of extensions of Goose that are not MCP servers."""
_ADDRESS_KEYS = ("command", "cmd", "url", "uri", "serverUrl", "httpUrl")
_OPENCODE_REFERENCE = re.compile(r"(?<!\$)\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_CONTINUE_REFERENCE = re.compile(r"\$\{\{\s*secrets\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_BARE_REFERENCE = re.compile(r"\$([A-Z][A-Z0-9_]+)")
_INNER_REFERENCE = re.compile(r"(?<!\$)\$([A-Za-z_][A-Za-z0-9_]*)")
"""A reference of Gemini CLI, which may be a part of a text."""
_TRANSPORTS = {
    "sse": "sse",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamableHttp": "http",
}
"""The names of transports in the files of clients, FastMCP and LangChain, and their names in the settings."""
_PLACE = re.compile(r"\$\{(workspaceFolder|workspaceRoot|workspaceFolderBasename|userHome|pathSeparator|/)\}")
_SSE_URL = re.compile(r"[^:/?#]+://[^/?#]+/([^?#]*/)?sse/*([?#]|$)")
_EDITOR_FOLDERS = frozenset(
    {".agents", ".amp", ".codex", ".cursor", ".gemini", ".github", ".kilo", ".qwen", ".roo", ".vscode", ".warp", ".zed"}
)
"""Folders of a project in which clients have their files."""


def is_server_entry(entry: Any) -> bool:
    """Return whether a value names a command or a URL, as entries of servers do."""
    return isinstance(entry, Mapping) and any(entry.get(key) for key in _ADDRESS_KEYS)


def is_switched_off(entry: Json) -> bool:
    """Return whether the client does not start this server, or it is a part of the client."""
    is_disabled = entry.get("disabled") is True or entry.get("enabled") is False or entry.get("isActive") is False
    return is_disabled or entry.get("type") in _BUILT_IN


def normalize_entry(entry: Json) -> dict[str, Any]:
    """Return an entry with the keys of the settings. Unknown keys are kept."""
    normalized: dict[str, Any] = {}
    for key, value in entry.items():
        setting = _RENAMED.get(key, key)
        # If an entry has both, the name of the settings takes precedence.
        # An empty sandbox is an error, so it must not mean that there is none.
        is_present = value is not None or key == "sandbox"
        if is_present and (setting == key or not normalized.get(setting)):
            normalized[setting] = value
    _flatten_command(normalized)
    _add_named_variables(normalized)
    # Continue has headers in its options of requests.
    request_options = normalized.get("requestOptions")
    if isinstance(request_options, Mapping) and isinstance(request_options.get("headers"), Mapping):
        normalized["headers"] = dict(request_options["headers"])
    for key in ("include", "exclude"):
        if not isinstance(normalized.get(key, []), list):
            del normalized[key]
    args = normalized.get("args")
    if isinstance(args, list):
        normalized["args"] = [_to_text(value) for value in args]
    for key in ("env", "headers"):
        values = normalized.get(key)
        if isinstance(values, Mapping):
            normalized[key] = {name: _to_text(value) for name, value in values.items() if value is not None}
    _convert_transport(normalized)
    if normalized.get("type") == "sse" or _has_sse_path(normalized):
        normalized.setdefault("transport", "sse")
    if normalized.get("cwd") == "":
        del normalized["cwd"]
    _convert_auth(normalized)
    return normalized


def list_unread_keys(entry: Json) -> list[str]:
    """Return a note for each unread key of a normalized entry that changes what its server gets."""
    notes = [f"'{key}' is not read. {advice}" for key, advice in _UNREAD.items() if entry.get(key)]
    uses_oauth = entry.get("auth") == "oauth"
    if entry.get("auth") and not uses_oauth:
        notes.append("'auth' is not read. Write `oauth` and run `mcp-bridge login`, or write the header into `headers`")
    oauth = entry.get("oauth")
    unread_keys: list[str] = []
    if isinstance(oauth, Mapping):
        unread_keys = [f"'{key}'" for key in oauth if key != "enabled"]
    if uses_oauth and unread_keys:
        names = ", ".join(unread_keys)
        notes.append(f"'oauth' is read without {names}. `mcp-bridge login` registers the bridge as a client itself")
    elif oauth and not entry.get("url"):
        notes.append("'oauth' is not read. A server that the bridge starts gets its credentials from `env`")
    if "sandbox" in entry and not is_sandbox(entry["sandbox"]):
        notes.append(
            "'sandbox' is not read in this form. Write `true`, `bubblewrap`, `landlock`, or a mapping of `type`, "
            "`network`, `allow_addresses`, `read`, `write`"
        )
    return notes


def is_sandbox(value: Any) -> bool:
    """Return whether a sandbox has the form of the settings, even if its values are invalid.

    Some clients write mappings of other forms, such as with a mapping in `network`.
    """
    if not isinstance(value, Mapping) or not _SANDBOX_KEYS.isdisjoint(value):
        return True
    return set(value) <= {"network"} and not isinstance(value.get("network"), Mapping)


def translate_references(value: Any, folder: Path, *, has_inner_references: bool = False) -> Any:
    """Return an entry in which references to variables have the form of the settings, `${NAME}`.

    Names of folders, such as `${workspaceFolder}`, are replaced; `folder` is that of the project. With
    `has_inner_references`, `$NAME` may be a part of a text, as in the files of Gemini CLI. Otherwise, it is a reference
    only if it is the whole text.
    """
    # Only Gemini CLI and Qwen Code write httpUrl.
    has_inner_references = has_inner_references or (isinstance(value, Mapping) and "httpUrl" in value)
    if isinstance(value, Mapping):
        return {
            key: translate_references(item, folder, has_inner_references=has_inner_references)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [translate_references(item, folder, has_inner_references=has_inner_references) for item in value]
    if not isinstance(value, str) or ("$" not in value and "{" not in value):
        return value
    value = _CONTINUE_REFERENCE.sub(r"${\1}", value)
    value = _OPENCODE_REFERENCE.sub(r"${\1}", value)
    # A `${` in the name of a folder is not a reference.
    value = _PLACE.sub(lambda match: _resolve_place(match[1], folder).replace("${", "$${"), value)
    if has_inner_references:
        return _INNER_REFERENCE.sub(r"${\1}", value)
    bare = _BARE_REFERENCE.fullmatch(value)
    if bare is None:
        return value
    return f"${{{bare[1]}}}"


def resolve_places(text: str, folder: Path) -> str:
    """Replace the folders of an editor in a text, such as `${workspaceFolder}`."""
    return _PLACE.sub(lambda match: _resolve_place(match[1], folder), text)


def find_project_folder(file: str) -> Path:
    """Return the project folder of a client's file."""
    folder = Path(file).absolute().parent
    return folder.parent if folder.name in _EDITOR_FOLDERS else folder


def _flatten_command(entry: dict[str, Any]) -> None:
    """Split a command in the form of a mapping (older versions of Zed) or a list (opencode)."""
    command = entry.get("command")
    if isinstance(command, Mapping):
        entry |= {key: value for key, value in command.items() if key in ("args", "env") and value is not None}
        entry["command"] = command.get("path")
    elif isinstance(command, list) and command:
        entry["command"] = command[0]
        entry["args"] = [*command[1:], *(entry.get("args") or ())]


def _convert_transport(entry: dict[str, Any]) -> None:
    """Replace the name of the transport by that of the settings. An unknown one stays, and is reported later."""
    transport = entry.get("transport")
    if transport == "stdio":
        del entry["transport"]
    elif isinstance(transport, str):
        entry["transport"] = _TRANSPORTS.get(transport, transport)


def _convert_auth(entry: dict[str, Any]) -> None:
    """Convert the ways to sign in. Unread keys stay, and `list_unread_keys` reports them."""
    has_header = any(str(name).lower() == "authorization" for name in entry.get("headers") or {})
    auth = entry.get("auth")
    if isinstance(auth, str) and auth != "oauth":
        # FastMCP's client sends this text as a bearer token.
        if not has_header:
            entry["headers"] = {"Authorization": f"Bearer {auth}", **(entry.get("headers") or {})}
        del entry["auth"]
        return
    if isinstance(auth, Mapping):
        # Cursor describes its OAuth client there, other clients in `oauth`.
        entry.setdefault("oauth", entry.pop("auth"))
    oauth = entry.get("oauth", False)
    if isinstance(oauth, Mapping):
        oauth = oauth.get("enabled")
    if oauth is not False and entry.get("url") and not has_header:
        entry["auth"] = "oauth"


def _add_named_variables(entry: dict[str, Any]) -> None:
    """Add references to the variables named in an entry."""
    # Codex and Goose list the names of variables, whose values the server gets.
    for key in ("env_vars", "env_keys"):
        names = [name for name in entry.pop(key, None) or () if isinstance(name, str)]
        if names:
            entry["env"] = {**{name: f"${{{name}}}" for name in names}, **(entry.get("env") or {})}
    headers = {}
    # Codex names the variable that has the value of a header.
    variables = entry.pop("env_http_headers", None)
    if isinstance(variables, Mapping):
        headers = {header: f"${{{name}}}" for header, name in variables.items()}
    token = entry.pop("bearer_token_env_var", None)
    if isinstance(token, str):
        headers["Authorization"] = f"Bearer ${{{token}}}"
    if headers:
        entry["headers"] = {**headers, **(entry.get("headers") or {})}


def _to_text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    return value


def _has_sse_path(entry: Json) -> bool:
    """Return whether an entry names no transport, and its URL has the usual path of the older one, `/sse`."""
    url = entry.get("url")
    return "type" not in entry and isinstance(url, str) and _SSE_URL.match(url) is not None


def _resolve_place(name: str, folder: Path) -> str:
    if name == "userHome":
        return os.path.expanduser("~")
    if name in ("pathSeparator", "/"):
        return os.sep
    if name == "workspaceFolderBasename":
        return folder.name
    return str(folder)
