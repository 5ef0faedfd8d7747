"""Options of `serve` and `asgi_app`: how the server presents itself, and where it keeps its state."""

from mcp_bridge._contracts.server_info import ServerInfo
from mcp_bridge._contracts.state import State
from mcp_bridge._contracts.store import Store

__all__ = ["ServerInfo", "State", "Store"]
