"""Finds the address of another MCP server on a command line: its URL, or the command for starting it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_bridge._cli import logs
from mcp_bridge._cli.options import AddressOptions
from mcp_bridge._cli.output import REPORT_REDACTOR
from mcp_bridge._cli.target import is_settings
from mcp_bridge._contracts.errors import ConfigError, SourceError
from mcp_bridge._runtime.http_client.requests import is_header_value
from mcp_bridge._runtime.urls import split_url
from mcp_bridge._upstream.trust.credentials import Credential, has_reference, read_credential

if TYPE_CHECKING:
    from mcp_bridge._upstream.messages import FaultListener
    from mcp_bridge._upstream.remote import ServerUrl

_URL = re.compile(r"https?://", re.IGNORECASE)
_HEADER_NAME = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_PROTOCOL_HEADERS = frozenset(
    {"accept", "connection", "content-length", "content-type", "host", "last-event-id", "transfer-encoding"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """The URL of a server, or the command that starts it over stdio.

    Attributes:
        headers: The headers of every request to the URL, which may contain secrets.
        secrets: The secrets that are sent to the server, so far.
    """

    url: str | None = None
    argv: Sequence[str] = ()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: list[str] = field(default_factory=list, repr=False)

    def __str__(self) -> str:
        return self.url or shlex.join(self.argv)

    def add_secrets(self, secrets: Iterable[str]) -> None:
        """Redact these secrets in logs and errors."""
        secrets = list(secrets)
        self.secrets.extend(secrets)
        logs.hide_secrets(secrets)
        REPORT_REDACTOR.add_secrets(secrets)


def find_address(target: str | None, options: AddressOptions) -> ServerAddress | None:
    """Return the address of another server, or None if the target is a file. Raises ConfigError."""
    if target is None or not is_url(target):
        for option, value in (("--token-env", options.token_env), ("--header", options.header)):
            if value:
                raise ConfigError("needs the URL of a server", where=option, hint="Pass a URL, or leave it out")
    if options.command is not None:
        if target is not None:
            hint = "Choose one of them"
            raise ConfigError(f"cannot be used with '{target}'", where="--command", hint=hint)
        return ServerAddress(argv=parse_command(options.command))
    if target is None or not is_url(target):
        _check_path(target)
        return None
    check_url(target)
    token = read_token(options.token_env)
    headers: dict[str, str] = {}
    secrets: list[str] = []
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
        secrets.append(token)
    for text in options.header or ():
        name, credential = _read_header(text)
        if name in headers:
            raise ConfigError(f"there are two values for {name}", where="--header", hint="Leave one of them out")
        headers[name] = credential.value
        secrets.append(credential.secret)
    address = ServerAddress(url=target, headers=headers)
    address.add_secrets(secrets)
    return address


def is_url(target: str) -> bool:
    return _URL.match(target) is not None


def _check_path(target: str | None) -> None:
    """Raise ConfigError for a target that is neither a path nor a URL of a server."""
    if target == "":
        raise ConfigError("the target is empty", hint="Leave it out for the default file, or use . for this folder")
    if target is not None and "://" in target:
        raise ConfigError(f"'{target}' is not the URL of a server", hint="It begins with http:// or https://")


def check_url(url: str) -> None:
    """Raise ConfigError for a URL with a password or without a host."""
    # Messages would show the password, and only some HTTP clients would send it.
    if "@" in url.split("//", 1)[1].split("/", 1)[0]:
        hint = "Remove them, and pass a bearer token with --token-env NAME"
        raise ConfigError("the URL contains a user name or password", where="URL", hint=hint)
    if not split_url(url).hostname:
        raise ConfigError("the URL is not valid", where="URL", hint="Write it as http://HOST:PORT/mcp")


def _read_header(text: str) -> tuple[str, Credential]:
    """Return the name of a header, in lower case, and its value. Raises ConfigError, without the text of the value."""
    name, equals, reference = text.partition("=")
    name = name.lower()
    if not equals or not _HEADER_NAME.fullmatch(name):
        hint = "Write it as --header NAME=env:VARIABLE"
        raise ConfigError("this is not the name of a header and a reference to its value", where="--header", hint=hint)
    if name in _PROTOCOL_HEADERS or name.startswith("mcp-"):
        raise ConfigError(f"the protocol itself sets {name}", where="--header", hint="Leave it out")
    if not has_reference(reference):
        hint = f"Set a variable to the value, and write {name}=env:VARIABLE: other users can see command lines"
        raise ConfigError(f"the value of {name} is not a reference", where="--header", hint=hint)
    try:
        credential = read_credential(reference, f"--header {name}", os.environ)
    except SourceError as error:
        raise ConfigError(str(error), hint="Set it, or correct the reference") from None
    if not is_header_value(credential.value):
        hint = "Check it for line breaks, and for spaces at its ends"
        raise ConfigError(f"the value of {name} has characters that no header can have", where="--header", hint=hint)
    return name, credential


def make_server_url(address: ServerAddress, on_fault: FaultListener | None = None) -> ServerUrl:
    """Return the URL of a server with its headers. If these have no credentials, a stored sign-in is used."""
    # Imported late, because most commands use no other server.
    from mcp_bridge._upstream.oauth import StoredSignIn
    from mcp_bridge._upstream.remote import ServerUrl

    assert address.url is not None
    auth = None
    if "authorization" not in address.headers:
        auth = StoredSignIn(address.url, address.url)
        auth.add_secrets = address.add_secrets
    return ServerUrl(url=address.url, headers=address.headers, auth=auth, on_fault=on_fault)


def parse_command(command: str) -> list[str]:
    """Split a command into words. Raises ConfigError."""
    try:
        argv = shlex.split(command)
    except ValueError as error:
        problem = f"'{command}' is not a command: {error}"
        raise ConfigError(problem, where="--command", hint="Check the quotes") from error
    if not argv:
        raise ConfigError("the command is empty", where="--command", hint="Pass the command that a client would run")
    return argv


def is_target(word: str) -> bool:
    """Return whether a word is a URL, a file to serve or a folder, rather than the name of a tool or prompt."""
    path = Path(word)
    return is_url(word) or path.suffix == ".py" or is_settings(path) or os.path.isdir(path)


def split_target(words: Sequence[str], target: str | None, kind: str) -> tuple[str | None, str, Sequence[str]]:
    """Split `[TARGET] NAME [KEY=VALUE]...` into target, name and arguments. Raises ConfigError without a name.

    `target` is the value of the option `--file`. `kind` describes the name in the error.

    A folder may have the same name as a tool. A plain word is a tool if nothing or an argument follows it.
    """
    if target is None and words and is_target(words[0]):
        next_word = words[1] if len(words) > 1 else ""
        is_before_arguments = not next_word or "=" in next_word or next_word.lstrip().startswith("{")
        is_plain_word = re.fullmatch(r"[\w-]+", words[0]) is not None
        if not (is_plain_word and is_before_arguments):
            target = words[0]
            words = words[1:]
    if not words:
        raise make_missing_error(target, kind)
    return target, words[0], words[1:]


def make_missing_error(target: str | None, kind: str) -> ConfigError:
    """Make the error for a command line without the name of a tool or prompt, or without a URI."""
    command = ["mcp-bridge", "list"]
    if target is not None:
        command.append(target)
    return ConfigError(f"no {kind} was given", hint=f"`{shlex.join(command)}` lists what is available")


def read_token(name: str | None) -> str | None:
    """Return the bearer token in an environment variable. Raises ConfigError if no header can have it."""
    if name is None:
        return None
    value = os.environ.get(name)
    if not value:
        problem = f"the environment variable {name} is not set"
        raise ConfigError(problem, where="--token-env", hint=f"Set {name} to the token")
    # HTTP clients would show such a value in their error.
    if not is_header_value(value):
        problem = f"the environment variable {name} has characters that no HTTP header can have"
        raise ConfigError(problem, where="--token-env", hint="Check it for line breaks, and for spaces at its ends")
    return value
