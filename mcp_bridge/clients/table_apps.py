"""Rows of the table: apps that the desktop starts."""

from __future__ import annotations

from mcp_bridge.clients.client import Client, ConfigPlace, LaunchEnvironment
from mcp_bridge.clients.table_parts import CONFIG, ROAMING, SDK_VARIABLES, SUPPORT, make_app_paths, make_paths

_DESKTOP_FILE = "Claude/claude_desktop_config.json"
_PLAIN = (
    "{title} has no way to refer to a variable, and a value is never written here: as it stands, the bridge will not "
    "start in it. "
)

CLAUDE_DESKTOP = Client(
    name="claude-desktop",
    title="Claude Desktop",
    places=(
        ConfigPlace(
            scope="user",
            format="json",
            paths={
                **make_app_paths(_DESKTOP_FILE),
                # Since February 2026 Windows has it as a package, which sees this folder in place of Roaming.
                "win32": (
                    f"{{LOCALAPPDATA:-~/AppData/Local}}/Packages/Claude_*/LocalCache/Roaming/{_DESKTOP_FILE}",
                    f"{ROAMING}/{_DESKTOP_FILE}",
                ),
            },
            within=("mcpServers",),
        ),
    ),
    shape={"command": "{command}", "args": "{args}"},
    install_traces={
        "darwin": ("/Applications/Claude.app", f"{SUPPORT}/Claude"),
        "linux": (f"{CONFIG}/Claude",),
        "win32": (f"{ROAMING}/Claude", "{LOCALAPPDATA:-~/AppData/Local}/Packages/Claude_*/LocalCache"),
    },
    launch_environment=LaunchEnvironment(is_desktop=True, inherited_variables=SDK_VARIABLES, folder="root"),
    next_steps="Quit Claude Desktop completely (macOS: Cmd+Q; Windows: Quit in the tray's menu; closing its window is "
    "not enough) and start it again.",
    removal_steps="It is still there until Claude Desktop has been quit completely and started again.",
    secrets_advice=_PLAIN.format(title="Claude Desktop")
    + "Make a bundle instead (mcp-bridge export mcpb): Claude Desktop asks for the values and keeps them.",
)

GOOSE = Client(
    name="goose",
    title="Goose",
    places=(
        ConfigPlace(
            scope="user",
            format="yaml",
            paths={
                "darwin": ("~/.config/goose/config.yaml",),  # as its documentation has it: not Application Support
                "linux": (f"{CONFIG}/goose/config.yaml",),
                "win32": (f"{ROAMING}/Block/goose/config/config.yaml",),
            },
            within=("extensions",),
        ),
    ),
    shape={
        "enabled": True,
        "type": "stdio",
        "name": "{name}",
        "description": "Tools served by mcp-bridge",
        "cmd": "{command}",
        "args": "{args}",
        "env_keys": "{secrets}",
        "timeout": 300,
    },
    programs=("goose",),
    install_traces={
        "darwin": ("/Applications/Goose.app", "~/.config/goose"),
        "linux": (f"{CONFIG}/goose",),
        "win32": (f"{ROAMING}/Block/goose",),
    },
    link="goose://extension?cmd={command}{args}{secrets}&id={name}&name={name}&description=Served%20by%20mcp-bridge",
    link_programs=("cu", "docker", "jbang", "npx", "uvx"),  # ui/desktop/src/components/settings/extensions/deeplink.ts
    launch_environment=LaunchEnvironment(has_own_secrets=True, timeout=300.0, timeout_key="timeout"),
    next_steps="Start a new session; Goose Desktop has to be restarted.",
    removal_steps="It is still there until a new session is started, and Goose Desktop restarted.",
    secrets_advice="Goose looks for them in its environment, then in its keyring: `goose configure`, the extension's "
    "environment variables, puts them there.",
)

LM_STUDIO = Client(
    name="lm-studio",
    title="LM Studio",
    places=(
        ConfigPlace(
            scope="user",
            format="jsonc",
            # Its documentation has the first; on some Macs it was seen in the second (lmstudio-bug-tracker 1371).
            paths=make_paths("~/.lmstudio/mcp.json", "~/.cache/lm-studio/mcp.json"),
            within=("mcpServers",),
        ),
    ),
    shape={"command": "{command}", "args": "{args}"},
    programs=("lms",),
    install_traces=make_paths("~/.lmstudio", "~/.cache/lm-studio"),
    link="lmstudio://add_mcp?name={name}&config={base64}",
    launch_environment=LaunchEnvironment(is_desktop=True, folder="home"),
    next_steps="LM Studio loads it when the file is saved; otherwise restart it.",
    secrets_advice=_PLAIN.format(title="LM Studio")
    + "Set the variables for all programs of your desktop, or give them a default in the settings.",
)
