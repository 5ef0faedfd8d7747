"""Finds the address of another MCP server on a command line: its URL, or the command for starting it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mcp_bridge._cli.target import is_settings
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._runtime.http_client.requests import is_header_value
from mcp_bridge._runtime.urls import split_url

_URL = re.compile(r"https?://", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """The URL of a server, or the command that starts it over stdio. `token` is a bearer token for the URL."""

    url: str | None = None
    argv: Sequence[str] = ()
    token: str | None = None

    def __str__(self) -> str:
        return self.url or shlex.join(self.argv)


def find_address(target: str | None, command: str | None, token_env: str | None) -> ServerAddress | None:
    """Return the address of another server, or None if the target is a file. Raises ConfigError."""
    if command is not None:
        if target is not None:
            hint = "Choose one of them"
            raise ConfigError(f"cannot be used with '{target}'", where="--command", hint=hint)
        return ServerAddress(argv=parse_command(command))
    if target is not None and _URL.match(target):
        # Messages would show the password, and only some HTTP clients would send it.
        if "@" in target.split("//", 1)[1].split("/", 1)[0]:
            hint = "Remove them, and pass a bearer token with --token-env NAME"
            raise ConfigError("the URL contains a user name or password", where="URL", hint=hint)
        if not split_url(target).hostname:
            raise ConfigError("the URL is not valid", where="URL", hint="Write it as http://HOST:PORT/mcp")
        return ServerAddress(url=target, token=read_token(token_env))
    if token_env is not None:
        raise ConfigError("needs the URL of a server", where="--token-env", hint="Pass a URL, or leave it out")
    return None


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
    return bool(_URL.match(word)) or path.suffix == ".py" or is_settings(path) or os.path.isdir(path)


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
