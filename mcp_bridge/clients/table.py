"""Every client that the bridge can be installed into, by name."""

from __future__ import annotations

from collections.abc import Mapping

from mcp_bridge.clients.client import Client
from mcp_bridge.clients.table_apps import CLAUDE_DESKTOP, GOOSE, LM_STUDIO
from mcp_bridge.clients.table_editors import CLINE, CONTINUE, CURSOR, VSCODE, WINDSURF, ZED
from mcp_bridge.clients.table_terminals import CLAUDE_CODE, CODEX, COPILOT_CLI, GEMINI_CLI, OPENCODE

CLIENTS: Mapping[str, Client] = {
    client.name: client
    for client in (
        CLAUDE_DESKTOP,
        CLAUDE_CODE,
        VSCODE,
        CURSOR,
        WINDSURF,
        ZED,
        CODEX,
        GEMINI_CLI,
        GOOSE,
        OPENCODE,
        COPILOT_CLI,
        LM_STUDIO,
        CLINE,
        CONTINUE,
    )
}
