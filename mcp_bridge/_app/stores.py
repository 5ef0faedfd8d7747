"""Opens the store of the settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.store import Store, StoreAddress, parse_store_address
from mcp_bridge._engine.plugins import make_store
from mcp_bridge._version import DISTRIBUTION

if TYPE_CHECKING:
    from mcp_bridge._settings import Settings


def open_store(settings: Settings, *, is_lasting: bool = False) -> Store:
    """Open the store of `state.store`. If it has to be lasting, SQLite replaces the store in memory.

    Raises ConfigError with the line of the setting.
    """
    address = parse_store_address(settings.state.store)
    if is_lasting and address.type == "memory":
        address = StoreAddress("sqlite", "")
    try:
        return make_store(address.type, *_build_arguments(settings, address))
    except ConfigError as error:
        raise settings.add_location(error, "state", "store") from None


def _build_arguments(settings: Settings, address: StoreAddress) -> tuple[Any, ...]:
    """Return the arguments of an included store. Raises ConfigError for an unusable address."""
    if address.type == "sqlite":
        if address.location:
            return (settings.directory / Path(address.location).expanduser(),)
        from mcp_bridge._policies.approvals.policy import get_store_file

        return (get_store_file(settings.path),)
    if address.type == "redis":
        if not address.location:
            raise ConfigError("the store `redis` has no address", hint="Write `state: {store: redis://HOST}`")
        try:
            import redis  # noqa: F401
        except ImportError:
            hint = f"Run `pip install '{DISTRIBUTION}[redis]'`"
            raise ConfigError("the store `redis` needs the package redis", hint=hint) from None
        return address.location, f"mcp-bridge:{settings.state_name}:state:"
    if "://" in address.type:
        # The address may contain a password, so the message does not show it.
        raise ConfigError("the store has an unknown address", hint="Known addresses: redis://, rediss:// and unix://")
    return ()


def find_redis_url(settings: Settings) -> str | None:
    """Return the Redis of the settings, or None."""
    address = parse_store_address(settings.state.store)
    return address.location if address.type == "redis" else None
