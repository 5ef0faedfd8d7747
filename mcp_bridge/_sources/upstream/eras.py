"""Chooses the protocol era of connections and calls to one server.

The eras are the handshake versions (up to 2025-11-25) and the stateless ones (from 2026-07-28). A tool asks its user by
requests while the call is open, which only the handshake versions have, or by input requests, which only the stateless
versions have. A server may speak both eras, with tools of both kinds.

So a call to a server at a URL uses the era of the client, as if the client were connected directly. A server with a
command has one process and state for all clients. It is started in the handshake era, because code can wait for answers
there, and the SDKs also translate input requests. If a tool fails because it asks in the way of the other era, its
further calls use that era.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from mcp_bridge._contracts.errors import ToolUnavailable
from mcp_bridge._contracts.jsonrpc import MISSING_CAPABILITY, RpcError
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tasks import TASKS
from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._protocol.wire.protocol_versions import STATELESS, has_feature
from mcp_bridge._upstream.session import Era

Protocol = Literal["auto", "handshake", "stateless"]
_OTHER_ERA: Mapping[Era, Era] = {"handshake": "stateless", "stateless": "handshake"}
_WRONG_ERA: Mapping[Era, re.Pattern[str]] = {
    "stateless": re.compile("server-initiated requests", re.IGNORECASE),
    "handshake": re.compile("returned an invalid result", re.IGNORECASE),
}
"""Text in the errors of the MCP SDK and of FastMCP if a tool asks in the way of the other era, by the used era."""


class EraChoice:
    """Chooses eras for one server. With `follows_clients`, calls use a connection in the era of their client."""

    def __init__(self, protocol: Protocol = "auto", *, follows_clients: bool = False) -> None:
        both: Sequence[Era] = ("stateless", "handshake") if follows_clients else ("handshake", "stateless")
        self.eras: Sequence[Era] = both if protocol == "auto" else (protocol,)
        self._follows_clients = follows_clients
        self._has_other = protocol == "auto"
        # The tools that have shown that they work in one era only.
        self._eras_by_tool: dict[str, Era] = {}
        # The tools whose results only the stateless versions can express.
        self._stateless_tools: frozenset[str] = frozenset()

    @property
    def first_era(self) -> Era:
        """The era of the first connection; before the first attempt, the era to try first."""
        return self.eras[0]

    def adopt_era(self, era: Era) -> None:
        """Note the era the first connection speaks after its negotiation."""
        if era != self.first_era:
            # The negotiation tried the first era before.
            self.prefer_other_era()
            self.note_missing_era()

    def prefer_other_era(self) -> None:
        """Try the other era first from now on."""
        self.eras = self.eras[::-1]

    def note_missing_era(self) -> None:
        """Use the first connection for all calls from now on, because the server does not speak the other era."""
        self._has_other = False

    def read_tools(self, tools: Sequence[ToolEntry]) -> None:
        """Note the tools with structured results that are not objects. Only 2026-07-28 has these."""
        names = set()
        for tool in tools:
            if tool.output_schema and tool.output_schema.get("type", "object") != "object":
                names.add(tool.name)
        self._stateless_tools = frozenset(names)

    def choose_era(self, method: str, params: Mapping[str, Any], ctx: RunningCall) -> Era:
        """Return the era for a call. Calls of the bridge itself have no version, and use the first connection."""
        tool_name = params["name"] if method == "tools/call" else ""
        if not self._has_other:
            return self.first_era
        if tool_name in self._eras_by_tool:
            return self._eras_by_tool[tool_name]
        if not self._follows_clients or not ctx.protocol_version or tool_name in self._stateless_tools:
            return self.first_era
        return "stateless" if has_feature(ctx.protocol_version, STATELESS) else "handshake"

    def check_result(
        self, era: Era, method: str, params: Mapping[str, Any], result: Mapping[str, Any] | RpcError
    ) -> bool:
        """Note a tool that needs the other era, by the result of a call.

        Return True if the call can be repeated there, because it has not begun. Raises ToolUnavailable if the tool
        needs the other era, but may have begun its work.
        """
        if not self._has_other or method != "tools/call" or params["name"] in self._eras_by_tool:
            return False
        required: Any = None
        if isinstance(result, RpcError):
            text = str(result)
            if result.code == MISSING_CAPABILITY:
                required = result.data
        elif result.get("isError"):
            text = str(result.get("content"))
            # A server that is a bridge itself names a missing capability in `_meta`, because the handshake era has no
            # error code for it.
            required = result.get("_meta")
        else:
            return False
        # A server rejects a call that must run as a task before it begins, if its client lacks the extension.
        if era == "handshake" and TASKS in str(required):
            self._eras_by_tool[params["name"]] = "stateless"
            return True
        if _WRONG_ERA[era].search(text):
            self._eras_by_tool[params["name"]] = _OTHER_ERA[era]
            raise ToolUnavailable(
                f"Tool '{params['name']}' asks the user in a way that this version of MCP does not have. "
                "Further calls use another version. Retry the call."
            )
        return False
