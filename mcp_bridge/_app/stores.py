"""Opens the stores that the settings name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.store import Store
from mcp_bridge._contracts.tasks import MEMORY
from mcp_bridge._engine.plugins import make_store
from mcp_bridge._version import DISTRIBUTION

if TYPE_CHECKING:
    from mcp_bridge._settings import Settings


def open_store(settings: Settings, section: str, name: str, path: str | None) -> Store:
    """Open the store that a section of the settings names. Raises ConfigError with the line of the section."""
    try:
        return make_store(name, *_find_store(settings, name, path), where=f"{section}.store")
    except ConfigError as error:
        raise settings.add_location(error, section, "store") from None


def _find_store(settings: Settings, name: str, path: str | None) -> tuple[Any, ...]:
    """Return the arguments of a store of ours: where it is. Raises ConfigError if the settings do not say so."""
    if name == "sqlite":
        from mcp_bridge._policies.approvals.policy import get_store_file

        return (settings.directory / Path(path).expanduser() if path is not None else get_store_file(settings.path),)
    if name == "redis":
        if (url := find_redis_url(settings)) is None:
            raise ConfigError("the store `redis` has no URL", hint="Write `state: {url: redis://HOST}`")
        try:
            import redis  # noqa: F401
        except ImportError:
            hint = f"Run `pip install '{DISTRIBUTION}[redis]'`"
            raise ConfigError("the store `redis` needs the package redis", hint=hint) from None
        return url, f"mcp-bridge:{settings.name}:state:"
    return ()


def find_redis_url(settings: Settings) -> str | None:
    """Return the Redis of the settings: that of `state`, else that of `tasks`, else None."""
    shared = settings.tasks.url if settings.tasks is not None and settings.tasks.url != MEMORY else None
    return settings.state.url or shared
