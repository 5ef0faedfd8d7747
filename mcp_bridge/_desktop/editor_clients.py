"""Clients in editors as data (see `client.py` for the fields).

The facts are from the documentation and the source code of the clients. docs/clients.md describes them for users.
"""

from __future__ import annotations

from mcp_bridge._desktop.client import Client, LaunchEnvironment
from mcp_bridge._desktop.templates import (
    CONFIG,
    DESKTOP_VARIABLES,
    EDITOR_REFERENCES,
    LOGIN_SHELL,
    NO_REFERENCES,
    PLAIN,
    PLAIN_REFERENCES,
    REMOTE,
    ROAMING,
    SDK_VARIABLES,
    STDIO,
    make_app_paths,
    make_paths,
    make_places,
)

VSCODE = Client(
    name="vscode",
    title="VS Code",
    places=make_places("jsonc", "servers", make_app_paths("Code/User/mcp.json"), ".vscode/mcp.json"),
    remote_shape={"type": "http", **REMOTE},
    shape={"type": "stdio", **STDIO},
    # VS Code would ask for an input and keep it, but an input is a second entry, which the removal of the last server
    # that needs it would have to remove too; a variable needs one edit.
    reference_syntax=EDITOR_REFERENCES,
    # `code --add-mcp` passes the server to a window and returns before the file is written: nothing to check then.
    programs=("code",),
    install_traces=make_app_paths("Code/User"),
    link="vscode:mcp/install?{full}",
    next_steps="VS Code asks whether you trust the server when it first starts it; `MCP: List Servers` starts it.",
    secrets_advice=LOGIN_SHELL.format(title="VS Code"),
)

VISUAL_STUDIO = Client(
    name="visual-studio",
    title="Visual Studio",
    # From learn.microsoft.com/visualstudio/ide/mcp-servers, which has nothing about references to variables.
    places=make_places("jsonc", "servers", "~/.mcp.json", ".mcp.json"),
    remote_shape={"type": "http", **REMOTE},
    shape={"type": "stdio", **PLAIN},
    # The files do not show that it is installed: other clients have a file of this name in a project.
    install_traces={
        "win32": tuple(f"{{PROGRAMFILES:-C:/Program Files}}/Microsoft Visual Studio/{year}" for year in ("2022", "18"))
    },
    link="vsweb+mcp:/install?{full}",
    next_steps="Visual Studio starts it when the file is saved. Enable its tools in the tool picker of the chat: they "
    "are off at first.",
    secrets_advice=NO_REFERENCES.format(title="Visual Studio") + DESKTOP_VARIABLES,
)

CURSOR = Client(
    name="cursor",
    title="Cursor",
    places=make_places("jsonc", "mcpServers", "~/.cursor/mcp.json", ".cursor/mcp.json"),
    remote_shape=REMOTE,
    shape=STDIO,
    reference_syntax=EDITOR_REFERENCES,
    programs=("cursor",),
    install_traces={**make_paths("~/.cursor"), "darwin": ("/Applications/Cursor.app", "~/.cursor")},
    link="cursor://anysphere.cursor-deeplink/mcp/install?name={name}&config={base64}",
    next_steps="Switch it on under Settings, MCP, if Cursor has not done so by itself.",
    secrets_advice=LOGIN_SHELL.format(title="Cursor"),
)

WINDSURF = Client(
    name="windsurf",
    title="Windsurf",
    places=make_places("jsonc", "mcpServers", "~/.codeium/windsurf/mcp_config.json"),
    remote_shape={"serverUrl": "{url}", "headers": "{headers}"},
    shape=STDIO,
    reference_syntax=EDITOR_REFERENCES,
    programs=("windsurf",),
    install_traces=make_paths("~/.codeium/windsurf"),
    launch_environment=LaunchEnvironment(folder="home"),
    next_steps="Press Refresh in Cascade's MCP settings, or restart Windsurf.",
    removal_steps="Press Refresh in Cascade's MCP settings, or restart Windsurf.",
    secrets_advice=LOGIN_SHELL.format(title="Windsurf"),
)

KIRO = Client(
    name="kiro",
    title="Kiro",
    # From kiro.dev/docs/mcp/configuration; variables and the timeout are from its extension kiro.kiro-agent.
    places=make_places("jsonc", "mcpServers", "~/.kiro/settings/mcp.json", ".kiro/settings/mcp.json"),
    remote_shape=REMOTE,
    shape=STDIO,
    reference_syntax=PLAIN_REFERENCES,
    programs=("kiro", "kiro-cli"),
    install_traces={**make_paths("~/.kiro"), "darwin": ("/Applications/Kiro.app", "~/.kiro")},
    launch_environment=LaunchEnvironment(inherited_variables=SDK_VARIABLES, timeout=300.0),
    next_steps="Kiro starts it when the file is saved; the MCP Servers panel shows it.",
    secrets_advice=LOGIN_SHELL.format(title="Kiro") + " Kiro asks for your approval of each variable; without it, the "
    "reference stays as text.",
)

ANTIGRAVITY = Client(
    name="antigravity",
    title="Antigravity",
    # The files are from guides of other projects that agree (cua.ai, sam-mesh.dev, skillsaw): its own page could not be
    # read. It does not replace references (google-antigravity/antigravity-cli#233). It rejects comments (skillsaw).
    places=make_places("json", "mcpServers", "~/.gemini/config/mcp_config.json", ".agents/mcp_config.json"),
    remote_shape={"serverUrl": "{url}", "headers": "{headers}"},
    shape=PLAIN,
    programs=("antigravity", "agy"),
    install_traces={
        **make_paths("~/.gemini/config", "~/.gemini/antigravity"),
        "darwin": ("/Applications/Antigravity.app", "~/.gemini/config", "~/.gemini/antigravity"),
    },
    next_steps="Press Refresh under Manage MCP Servers; in a terminal, start `agy` again and look at /mcp.",
    removal_steps="Press Refresh under Manage MCP Servers, or start `agy` again.",
    secrets_advice=NO_REFERENCES.format(title="Antigravity") + DESKTOP_VARIABLES,
)

ZED = Client(
    name="zed",
    title="Zed",
    places=make_places(
        "jsonc",
        "context_servers",
        {
            # Its settings are not in Application Support, where its extensions are.
            "darwin": ("~/.config/zed/settings.json",),
            "linux": (f"{CONFIG}/zed/settings.json", "~/.var/app/dev.zed.Zed/config/zed/settings.json"),
            "win32": (f"{ROAMING}/Zed/settings.json",),
        },
        ".zed/settings.json",
    ),
    remote_shape=REMOTE,
    shape=PLAIN,
    programs=("zed", "zeditor"),
    install_traces={
        "darwin": ("/Applications/Zed.app", "~/.config/zed"),
        "linux": (f"{CONFIG}/zed", "~/.var/app/dev.zed.Zed"),
        "win32": (f"{ROAMING}/Zed",),
    },
    next_steps="Zed starts it at once; its dot in the Agent Panel's settings turns green.",
    secrets_advice="Zed does not support references to variables, but passes on those of your login shell: export them "
    "in its profile, then restart Zed.",
)

JUNIE = Client(
    name="junie",
    title="Junie",
    # From guides of other projects that agree and cite junie.jetbrains.com, which could not be read. They know of no
    # references to variables.
    places=make_places("json", "mcpServers", "~/.junie/mcp/mcp.json", ".junie/mcp/mcp.json"),
    remote_shape=REMOTE,
    shape=PLAIN,
    programs=("junie",),
    install_traces=make_paths("~/.junie"),
    next_steps="Start a new session; in an IDE, Settings, Tools, Junie, MCP Settings lists it.",
    secrets_advice=NO_REFERENCES.format(title="Junie") + DESKTOP_VARIABLES,
)
