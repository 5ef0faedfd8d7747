"""All supported clients by name, in the order in which they are listed."""

from __future__ import annotations

from collections.abc import Mapping

from mcp_bridge._desktop import app_clients, editor_clients, extension_clients, terminal_clients
from mcp_bridge._desktop.client import Client

_CLIENTS = (
    app_clients.CLAUDE_DESKTOP,
    terminal_clients.CLAUDE_CODE,
    editor_clients.VSCODE,
    editor_clients.VISUAL_STUDIO,
    editor_clients.CURSOR,
    editor_clients.WINDSURF,
    editor_clients.KIRO,
    editor_clients.ANTIGRAVITY,
    editor_clients.ZED,
    editor_clients.JUNIE,
    terminal_clients.CODEX,
    terminal_clients.GEMINI_CLI,
    terminal_clients.QWEN_CODE,
    terminal_clients.GOOSE,
    terminal_clients.OPENCODE,
    terminal_clients.COPILOT_CLI,
    terminal_clients.AMP,
    terminal_clients.CRUSH,
    app_clients.LM_STUDIO,
    app_clients.WARP,
    app_clients.LIBRECHAT,
    extension_clients.CLINE,
    extension_clients.ROO_CODE,
    extension_clients.KILO_CODE,
    extension_clients.CONTINUE,
)
CLIENTS: Mapping[str, Client] = {client.name: client for client in _CLIENTS}
