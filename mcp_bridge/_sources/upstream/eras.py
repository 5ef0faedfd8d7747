"""Chooses the protocol era of connections and calls to one server.

A server that speaks both eras asks users in two ways: by requests while a call is open, which only the handshake
versions have, or by input requests, which only 2026-07-28 has. A server at a URL therefore serves each client in the
client's era, as if it were connected directly. A program has one process, whose state its clients share; it is started
in the handshake era, in which code can wait for answers and the SDKs also translate input requests.
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
_OTHER: Mapping[Era, Era] = {"handshake": "stateless", "stateless": "handshake"}
_WRONG_ERA: Mapping[Era, re.Pattern[str]] = {
    "stateless": re.compile("server-initiated requests", re.IGNORECASE),
    "handshake": re.compile("returned an invalid result", re.IGNORECASE),
}
"""What errors of the MCP SDK and of FastMCP contain if a tool asks in the way of the other era."""


class EraChoice:
    """Chooses eras for one server. With `follows_clients`, calls use a connection in the era of their client."""

    def __init__(self, protocol: Protocol = "auto", *, follows_clients: bool = False) -> None:
        both: Sequence[Era] = ("stateless", "handshake") if follows_clients else ("handshake", "stateless")
        self.eras: Sequence[Era] = both if protocol == "auto" else (protocol,)
        self._follows_clients = follows_clients
        self._has_other = protocol == "auto"
        # The tools that ask the user, if that works in one era only.
        self._eras_by_tool: dict[str, Era] = {}
        self._stateless_tools: frozenset[str] = frozenset()

    @property
    def first_era(self) -> Era:
        """The era of the first connection; before the first attempt, the era to try first."""
        return self.eras[0]

    def adopt_era(self, era: Era) -> None:
        """Begin with this era in further connections, because the server speaks it."""
        if era != self.first_era:
            self.prefer_other_era()
            self.note_missing_era()

    def prefer_other_era(self) -> None:
        """Begin with the other era: some servers end at an unknown request."""
        self.eras = self.eras[::-1]

    def note_missing_era(self) -> None:
        """Use the first connection for all calls from now on, because the server does not speak the other era."""
        self._has_other = False

    def read_tools(self, tools: Sequence[ToolEntry]) -> None:
        """Note the tools with structured results that are not objects. Only 2026-07-28 has these."""
        schemas = ((tool.name, tool.output_schema) for tool in tools)
        self._stateless_tools = frozenset(
            name for name, schema in schemas if schema and schema.get("type", "object") != "object"
        )

    def choose_era(self, method: str, params: Mapping[str, Any], ctx: RunningCall) -> Era:
        """Return the era for a call. Calls of the bridge itself use the first connection."""
        name = params["name"] if method == "tools/call" else ""
        if not self._has_other:
            return self.first_era
        if name in self._eras_by_tool:
            return self._eras_by_tool[name]
        if not self._follows_clients or not ctx.protocol_version or name in self._stateless_tools:
            return self.first_era
        return "stateless" if has_feature(ctx.protocol_version, STATELESS) else "handshake"

    def check_result(
        self, era: Era, method: str, params: Mapping[str, Any], result: Mapping[str, Any] | RpcError
    ) -> bool:
        """Note a tool that needs the other era. Return whether the call can be repeated there, as it has not begun.

        Raises ToolUnavailable if the tool may have begun its work.
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
            # Bridges name a missing capability there, because the handshake era has no error for it.
            required = result.get("_meta")
        else:
            return False
        if era == "handshake" and TASKS in str(required):
            self._eras_by_tool[params["name"]] = "stateless"
            return True
        if _WRONG_ERA[era].search(text):
            self._eras_by_tool[params["name"]] = _OTHER[era]
            raise ToolUnavailable(
                f"Tool '{params['name']}' asks the user in a way that this version of MCP does not have. "
                "Further calls use another version. Retry the call."
            )
        return False
