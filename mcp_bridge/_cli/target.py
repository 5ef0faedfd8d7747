"""Loads the target of a command: a Python file, a folder or a settings file, or the default file of the folder."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mcp_bridge._app.server_name import DEFAULT_FILES, SETTINGS_SUFFIXES, choose_server_name, to_server_name
from mcp_bridge._cli import logs
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._runtime.event_loop import LoopFactory, interrupt_imports, make_loop_factory
from mcp_bridge._version import DISTRIBUTION

if TYPE_CHECKING:
    from mcp_bridge._app.bridge import Bridge
    from mcp_bridge._settings import Settings

NO_RECORD_VARIABLE = "MCP_BRIDGE_NO_RECORD"
"""`doctor` starts servers with this variable. A bridge then reads the definitions of upstreams, and records none."""
_HOST = r"[\w.-]+:\d+(/|$)|[\w-]+(\.[\w-]+)*\.[a-z]{2,}/"
"""A text such as `localhost:8808` or `example.com/mcp`, which is meant as a URL."""
RELOAD_HINT = f"Run `pip install '{DISTRIBUTION}[reload]'`"
_HINT = "Use a .py file, a folder of .py files, or a settings file (.yaml, .yml, .json, .toml)"
_BUNDLE_HINT = "To serve a bundle of Amplifier, copy the lines between its first two `---` to a .yaml file"


class BridgeTarget(NamedTuple):
    """A bridge before its start. Only a settings file has settings, and can choose the event loop."""

    path: Path
    bridge: Bridge
    settings: Settings | None = None
    loop_factory: LoopFactory | None = None


class ServedFile(NamedTuple):
    """A file to serve: its absolute path, its default server name, the required variables, and notes for users."""

    path: Path
    name: str
    secrets: Sequence[str] = ()
    notes: Sequence[str] = ()


def find_file(path: Path | str | None) -> Path:
    """Return the given path, or the default file of the current folder. Raises ConfigError if there is none."""
    if path is not None:
        return Path(path)
    for name in DEFAULT_FILES:
        if Path(name).is_file():
            return Path(name)
    hint = f"Pass a file, name it one of {', '.join(DEFAULT_FILES)}, or create a project: mcp-bridge init"
    raise ConfigError("no file was given, and the current folder has no default file", hint=hint)


def find_settings(path: Path | None, purpose: str) -> Path:
    """Return the given path or the default file. Raises ConfigError if it is not a settings file, with its purpose."""
    path = find_file(path)
    if not is_settings(path):
        hint = f"Pass {purpose} ({', '.join(SETTINGS_SUFFIXES)})"
        raise ConfigError("this is not a settings file", path=str(path), hint=hint)
    return path


def is_settings(path: Path) -> bool:
    return path.suffix.lower() in SETTINGS_SUFFIXES


def check_servable(path: Path) -> None:
    """Check that a path other than a settings file can be served. Raises ConfigError."""
    # Path.exists raises for a name that is too long.
    if not os.path.exists(path):
        hint = "Check the path"
        if re.match(_HOST, str(path)):
            hint = "The URL of a server begins with http:// or https://"
        raise ConfigError("no such file or folder", path=str(path), hint=hint)
    if path.suffix != ".py" and not path.is_dir():
        hint = f"{_HINT}. {_BUNDLE_HINT}" if path.suffix == ".md" else _HINT
        raise ConfigError("this file cannot be served", path=str(path), hint=hint)


def load_target(
    path: Path | str | None, *, watch: bool = False, token_env: str | None = None, private: bool = False
) -> BridgeTarget:
    """Make the bridge of a file. `private` is whether clients need a token although the file requires none.

    Raises ConfigError for invalid settings.
    """
    from mcp_bridge._app.factory import build_from_file, build_from_settings

    path = find_file(path)
    settings = None
    loop_factory = None
    if is_settings(path):
        from mcp_bridge._settings import load

        settings = load(path, os.environ)
        logs.hide_secrets(settings.secrets)
        token_env = token_env or settings.http.token_env
        needs_token = private or token_env is not None or bool(settings.http.tokens) or settings.http.jwt is not None
        bridge = build_from_settings(settings, watch=watch, private=needs_token)
        bridge.add_secret_listener(logs.hide_secrets)
        logs.add_substitutions(bridge.registry.pipeline.redactor.substitutions)
        if settings.http.tokens:
            from mcp_bridge._app.http_access import list_known_tokens

            hide_secrets(bridge, list_known_tokens(settings.directory, settings.http.tokens.values(), os.environ))
        try:
            loop_factory = make_loop_factory(settings.event_loop)
        except ConfigError as error:
            raise settings.add_location(error, "event_loop") from error
    else:
        check_servable(path)
        bridge = build_from_file(path, watch=watch, private=private or token_env is not None)
    # The token is a secret even if this server does not use it.
    if token_env is not None and os.environ.get(token_env):
        hide_secrets(bridge, [os.environ[token_env]])
    return BridgeTarget(path=path, bridge=bridge, settings=settings, loop_factory=loop_factory)


def can_reload() -> bool:
    """Return whether edited files can be reloaded."""
    from importlib.util import find_spec

    return find_spec("watchfiles") is not None


def hide_secrets(bridge: Bridge, secrets: Iterable[str]) -> None:
    """Redact these values from now on in logs and in messages to clients."""
    secrets = list(secrets)
    logs.hide_secrets(secrets)
    bridge.hide_secrets(secrets)


@contextlib.asynccontextmanager
async def run_sources(bridge: Bridge, *, serving: bool = True) -> AsyncIterator[None]:
    """Run the sources inside the block. Ctrl-C can end the import of a file too."""
    with interrupt_imports():
        async with bridge.run_sources(serving=serving):
            yield


async def run_until_started(bridge: Bridge) -> None:
    """Run the sources until each has published or tried to connect. Raises ConfigError and SourceError."""
    async with run_sources(bridge, serving=False):
        await bridge.wait_until_started()
        await bridge.wait_until_connected()


def load_and_start(path: Path | str | None) -> Bridge:
    """Make the bridge of a file, and run its sources until they have published. Raises ConfigError and SourceError.

    Meanwhile, what tools print goes to stderr, because stdout is only for the result of the command.
    """
    import anyio

    from mcp_bridge._runtime.stdio_descriptors import reserve_stdio

    with reserve_stdio():
        bridge = load_target(path).bridge
        anyio.run(run_until_started, bridge)
    return bridge


def check_file(path: Path) -> ServedFile:
    """Check a file without starting its sources. Raises ConfigError."""
    absolute = Path(os.path.abspath(path))
    if is_settings(path):
        return _check_settings(absolute)
    check_servable(path)
    if path.is_dir() and all(file.name.startswith("_") for file in path.glob("*.py")):
        raise ConfigError("this folder has no Python file to serve", path=str(path), hint=_HINT)
    return ServedFile(path=absolute, name=choose_server_name(absolute))


def _check_settings(path: Path) -> ServedFile:
    """Check a settings file, with empty text for each unset variable."""
    from mcp_bridge._settings import parse, prepare, read_document
    from mcp_bridge._settings.environment import list_variables

    document = prepare(read_document(path))
    secrets = [variable.name for variable in list_variables(document) if variable.default is None]
    unset = [name for name in secrets if name not in os.environ]
    try:
        parse(document, {**os.environ, **dict.fromkeys(unset, "")})
    except ConfigError as error:
        # With variables that are not set, other errors may be about their empty values.
        if not unset or error.problem.startswith("unknown key"):
            raise
    name = document.data.get("name")
    if not isinstance(name, str) or not name or "${" in name:
        name = choose_server_name(path)
    notes = [f"the settings were not fully checked, because these variables are not set: {', '.join(unset)}"]
    return ServedFile(path=path, name=to_server_name(name), secrets=secrets, notes=notes if unset else [])
