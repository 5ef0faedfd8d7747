"""How a server presents itself, and where it keeps its state, for `serve` and `asgi_app`."""

from mcp_bridge._contracts.server_info import ServerInfo
from mcp_bridge._contracts.state import State
from mcp_bridge._contracts.store import Store

__all__ = ["ServerInfo", "State", "Store"]
