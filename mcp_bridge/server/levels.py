"""logging/setLevel of the handshake era."""

from __future__ import annotations

from typing import Any

import mcp_types as types

from mcp_bridge.server.context import LEVEL, Request


async def set_level(request: Request, params: types.SetLevelRequestParams) -> dict[str, Any]:
    """Send this connection log messages of this level and more severe ones from now on."""
    request.session._connection.state[LEVEL] = params.level
    return {}
