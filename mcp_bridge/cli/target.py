"""What the command is pointed at: a Python file, a folder, or a settings file; found where nothing is named."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_bridge.cli import logs
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.runtime.event_loop import LoopFactory, lasting

if TYPE_CHECKING:
    from mcp_bridge.app.bridge import Bridge
    from mcp_bridge.settings import Settings

SETTINGS = (".yaml", ".yml", ".json", ".toml")
DEFAULTS = (*(f"mcp-bridge{suffix}" for suffix in SETTINGS), "tools.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A bridge that is not running yet, its settings where it has a file of them, and the loop that it is served on."""

    path: Path
    bridge: Bridge
    settings: Settings | None = None
    loop_factory: LoopFactory | None = None


def find(path: Path | None) -> Path:
    """The given path, or the default one of this folder. Raises ConfigError when there is none."""
    if path is not None:
        return path
    for name in DEFAULTS:
        if Path(name).is_file():
            return Path(name)
    raise ConfigError("no file is given and none is here", hint=f"Name one, or make one of: {', '.join(DEFAULTS)}")


def load(path: Path | None, *, watch: bool = False, token_env: str | None = None) -> Target:
    """The bridge that a path stands for. Raises ConfigError for settings that cannot be used."""
    from mcp_bridge.app.factory import from_file, from_settings

    path = find(path)
    if path.suffix.lower() in SETTINGS:
        from mcp_bridge.settings import load as load_settings

        settings = load_settings(path, os.environ)
        logs.hide(settings.secrets)
        token_env = token_env or settings.http.token_env
        bridge = from_settings(settings, watch=watch, private=token_env is not None)
        _hide_token(bridge, token_env)
        return Target(path=path, bridge=bridge, settings=settings, loop_factory=_loop_factory(settings))
    if not os.path.exists(path):  # Path's own raises for a name that is too long
        raise ConfigError("no such file or folder", path=str(path), hint="Check the path")
    if path.suffix != ".py" and not path.is_dir():
        hint = "Serve a .py file, a folder of them, or settings (.yaml, .yml, .json, .toml)"
        raise ConfigError("nothing here can be served", path=str(path), hint=hint)
    bridge = from_file(path, watch=watch, private=token_env is not None)
    _hide_token(bridge, token_env)
    return Target(path=path, bridge=bridge)


def _loop_factory(settings: Settings) -> LoopFactory:
    try:
        return lasting(settings.event_loop)
    except ConfigError as error:
        raise settings.located(error, "event_loop") from error


def _hide_token(bridge: Bridge, name: str | None) -> None:
    """Over stdio it is asked for by nobody, but is no less a secret."""
    token = os.environ.get(name, "") if name is not None else ""
    if token:
        logs.hide([token])
        bridge.hide([token])
