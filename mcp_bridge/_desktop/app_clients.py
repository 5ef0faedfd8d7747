"""Clients with a window of their own as data (see `client.py` for the fields).

The facts are from the documentation and the source code of the clients. docs/clients.md describes them for users.
"""

from __future__ import annotations

from mcp_bridge._desktop.client import Client, ConfigPlace, LaunchEnvironment
from mcp_bridge._desktop.templates import (
    CONFIG,
    DESKTOP_VARIABLES,
    LOCAL,
    NO_REFERENCES,
    PLAIN,
    PLAIN_REFERENCES,
    REMOTE,
    ROAMING,
    SDK_VARIABLES,
    STDIO,
    SUPPORT,
    make_app_paths,
    make_paths,
    make_places,
)

_CLAUDE_DESKTOP_FILE = "Claude/claude_desktop_config.json"
CLAUDE_DESKTOP = Client(
    name="claude-desktop",
    title="Claude Desktop",
    places=make_places(
        "json",
        "mcpServers",
        {
            **make_app_paths(_CLAUDE_DESKTOP_FILE),
            # Since February 2026 Windows has it as a package, which sees this folder in place of Roaming.
            "win32": (
                f"{LOCAL}/Packages/Claude_*/LocalCache/Roaming/{_CLAUDE_DESKTOP_FILE}",
                f"{ROAMING}/{_CLAUDE_DESKTOP_FILE}",
            ),
        },
    ),
    shape=PLAIN,
    install_traces={
        "darwin": ("/Applications/Claude.app", f"{SUPPORT}/Claude"),
        "linux": (f"{CONFIG}/Claude",),
        "win32": (f"{ROAMING}/Claude", f"{LOCAL}/Packages/Claude_*/LocalCache"),
    },
    launch_environment=LaunchEnvironment(is_desktop=True, inherited_variables=SDK_VARIABLES, folder="root"),
    next_steps="Quit Claude Desktop completely (macOS: Cmd+Q; Windows: Quit in the tray's menu; closing its window is "
    "not enough) and start it again.",
    removal_steps="Claude Desktop still has it until you quit it completely and start it again.",
    secrets_advice=NO_REFERENCES.format(title="Claude Desktop")
    + "Make a bundle instead (mcp-bridge export mcpb): Claude Desktop asks for the values and keeps them.",
)

LM_STUDIO = Client(
    name="lm-studio",
    title="LM Studio",
    # Its documentation has the first path; on some Macs it was seen in the second (lmstudio-bug-tracker 1371).
    places=make_places("jsonc", "mcpServers", make_paths("~/.lmstudio/mcp.json", "~/.cache/lm-studio/mcp.json")),
    remote_shape=REMOTE,
    shape=PLAIN,
    programs=("lms",),
    install_traces=make_paths("~/.lmstudio", "~/.cache/lm-studio"),
    link="lmstudio://add_mcp?name={name}&config={base64}",
    launch_environment=LaunchEnvironment(is_desktop=True, folder="home"),
    next_steps="LM Studio loads it when the file is saved; otherwise restart it.",
    secrets_advice=NO_REFERENCES.format(title="LM Studio") + DESKTOP_VARIABLES,
)

WARP = Client(
    name="warp",
    title="Warp",
    # From app/src/ai/mcp of Warp. It finds no server in a file with an unset variable or a comment.
    places=make_places("json", "mcpServers", "~/.warp/.mcp.json", ".warp/.mcp.json"),
    remote_shape=REMOTE,
    shape=STDIO,
    reference_syntax=PLAIN_REFERENCES,
    programs=("warp-terminal",),
    install_traces={
        "darwin": ("/Applications/Warp.app", "~/.warp"),
        "linux": (f"{CONFIG}/warp-terminal", "~/.warp"),
        "win32": (f"{LOCAL}/warp", "~/.warp"),
    },
    launch_environment=LaunchEnvironment(folder="home"),
    next_steps="Warp finds it when the file is saved; Settings, Agents, MCP servers shows it.",
    secrets_advice="Warp reads its own environment, not that of the shells in it: set the variables for all programs "
    "of your desktop, then restart Warp.",
)

LIBRECHAT = Client(
    name="librechat",
    title="LibreChat",
    # From packages/data-provider/src/mcp.ts of LibreChat.
    places=(
        ConfigPlace(
            scope="project",
            format="yaml",
            paths=make_paths("librechat.yaml"),
            within=("mcpServers",),
            # LibreChat rejects a file without it.
            opening="version: 1.3.1\n",
        ),
    ),
    remote_shape={"type": "streamable-http", **REMOTE},
    shape={"type": "stdio", **STDIO},
    reference_syntax=PLAIN_REFERENCES,
    install_traces=make_paths("librechat.yaml", "librechat.example.yaml"),
    launch_environment=LaunchEnvironment(inherited_variables=SDK_VARIABLES),
    next_steps="Restart LibreChat. In Docker, the paths have to exist in its container; a URL does not need any.",
    removal_steps="Restart LibreChat.",
    secrets_advice="Write each as NAME=value into the file .env of LibreChat.",
)
