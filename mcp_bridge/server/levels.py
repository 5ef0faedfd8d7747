"""logging/setLevel of the handshake era."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext

from mcp_bridge.server.context import LEVEL


async def set_level(request: ServerRequestContext[Any, Any], params: types.SetLevelRequestParams) -> dict[str, Any]:
    """Send this connection log messages of this level and more severe ones from now on."""
    request.session._connection.state[LEVEL] = params.level
    return {}
