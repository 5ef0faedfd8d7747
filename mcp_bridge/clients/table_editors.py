"""Rows of the table: editors and what lives in them."""

from __future__ import annotations

from mcp_bridge.clients.client import Client, ConfigPlace, LaunchEnvironment, ReferenceSyntax
from mcp_bridge.clients.table_parts import (
    CONFIG,
    EDITOR_REFERENCES,
    NAME_PATTERN,
    ROAMING,
    SDK_VARIABLES,
    SUPPORT,
    make_app_paths,
    make_paths,
)

_STDIO = {"command": "{command}", "args": "{args}", "env": "{env}"}
_TYPED = {"type": "stdio", **_STDIO}
_SHELL = "{title} takes its variables from your login shell: export them in its profile, then restart {title}."
_CLINE = "cline_mcp_settings.json"

VSCODE = Client(
    name="vscode",
    title="VS Code",
    places=(
        ConfigPlace(scope="user", format="jsonc", paths=make_app_paths("Code/User/mcp.json"), within=("servers",)),
        ConfigPlace(scope="project", format="jsonc", paths=make_paths(".vscode/mcp.json"), within=("servers",)),
    ),
    shape=_TYPED,
    # An input would be asked for and kept by VS Code, but is a second entry, which the last server that needs it
    # would have to take along; a variable is one edit.
    reference_syntax=EDITOR_REFERENCES,
    # `code --add-mcp` hands the server to a window and returns before the file is written: nothing to check then.
    programs=("code",),
    install_traces=make_app_paths("Code/User"),
    link="vscode:mcp/install?{full}",
    next_steps="VS Code asks whether you trust the server when it first starts it; `MCP: List Servers` starts it.",
    secrets_advice=_SHELL.format(title="VS Code"),
)

CURSOR = Client(
    name="cursor",
    title="Cursor",
    places=(
        ConfigPlace(scope="user", format="jsonc", paths=make_paths("~/.cursor/mcp.json"), within=("mcpServers",)),
        ConfigPlace(scope="project", format="jsonc", paths=make_paths(".cursor/mcp.json"), within=("mcpServers",)),
    ),
    shape=_STDIO,
    reference_syntax=EDITOR_REFERENCES,
    programs=("cursor",),
    install_traces={**make_paths("~/.cursor"), "darwin": ("/Applications/Cursor.app", "~/.cursor")},
    link="cursor://anysphere.cursor-deeplink/mcp/install?name={name}&config={base64}",
    next_steps="Switch it on under Settings, MCP, if Cursor has not done so by itself.",
    secrets_advice=_SHELL.format(title="Cursor"),
)

WINDSURF = Client(
    name="windsurf",
    title="Windsurf",
    places=(
        ConfigPlace(
            scope="user",
            format="jsonc",
            paths=make_paths("~/.codeium/windsurf/mcp_config.json"),
            within=("mcpServers",),
        ),
    ),
    shape=_STDIO,
    reference_syntax=EDITOR_REFERENCES,
    programs=("windsurf",),
    install_traces=make_paths("~/.codeium/windsurf"),
    launch_environment=LaunchEnvironment(folder="home"),
    next_steps="Press Refresh in Cascade's MCP settings, or restart Windsurf.",
    removal_steps="Press Refresh in Cascade's MCP settings, or restart Windsurf.",
    secrets_advice=_SHELL.format(title="Windsurf"),
)

ZED = Client(
    name="zed",
    title="Zed",
    places=(
        ConfigPlace(
            scope="user",
            format="jsonc",
            paths={
                "darwin": ("~/.config/zed/settings.json",),  # not Application Support, where its extensions are
                "linux": (f"{CONFIG}/zed/settings.json", "~/.var/app/dev.zed.Zed/config/zed/settings.json"),
                "win32": (f"{ROAMING}/Zed/settings.json",),
            },
            within=("context_servers",),
        ),
        ConfigPlace(
            scope="project", format="jsonc", paths=make_paths(".zed/settings.json"), within=("context_servers",)
        ),
    ),
    shape={"command": "{command}", "args": "{args}"},
    programs=("zed", "zeditor"),
    install_traces={
        "darwin": ("/Applications/Zed.app", "~/.config/zed"),
        "linux": (f"{CONFIG}/zed", "~/.var/app/dev.zed.Zed"),
        "win32": (f"{ROAMING}/Zed",),
    },
    next_steps="Zed starts it at once; its dot in the Agent Panel's settings turns green.",
    secrets_advice="Zed has no way to refer to a variable, but hands on those of your login shell: export them in its "
    "profile, then restart Zed.",
)

CLINE = Client(
    name="cline",
    title="Cline",
    places=(
        ConfigPlace(
            scope="user",
            format="json",
            # Since 3.8x in a folder that editor and command line share; before, in the editor's storage.
            paths={
                "darwin": (
                    f"{{CLINE_DATA_DIR:-~/.cline/data}}/settings/{_CLINE}",
                    f"{SUPPORT}/Code/User/globalStorage/saoudrizwan.claude-dev/settings/{_CLINE}",
                ),
                "linux": (
                    f"{{CLINE_DATA_DIR:-~/.cline/data}}/settings/{_CLINE}",
                    f"{CONFIG}/Code/User/globalStorage/saoudrizwan.claude-dev/settings/{_CLINE}",
                ),
                "win32": (
                    f"{{CLINE_DATA_DIR:-~/.cline/data}}/settings/{_CLINE}",
                    f"{ROAMING}/Code/User/globalStorage/saoudrizwan.claude-dev/settings/{_CLINE}",
                ),
            },
            within=("mcpServers",),
        ),
    ),
    shape=_STDIO,
    reference_syntax=ReferenceSyntax(
        template="${env:{name}}", pattern=rf"\$\{{env:{NAME_PATTERN}\}}"
    ),  # as editors, since 3.43 (pull 8079)
    programs=("cline",),
    install_traces={
        "darwin": ("~/.cline/data", f"{SUPPORT}/Code/User/globalStorage/saoudrizwan.claude-dev"),
        "linux": ("~/.cline/data", f"{CONFIG}/Code/User/globalStorage/saoudrizwan.claude-dev"),
        "win32": ("~/.cline/data", f"{ROAMING}/Code/User/globalStorage/saoudrizwan.claude-dev"),
    },
    launch_environment=LaunchEnvironment(inherited_variables=SDK_VARIABLES, folder="home", timeout_key="timeout"),
    next_steps="Cline starts it when the file is saved; the MCP Servers panel shows it.",
    secrets_advice="Cline reads them from its editor's environment. Export them in your shell's profile; restart it.",
)

CONTINUE = Client(
    name="continue",
    title="Continue",
    places=(
        ConfigPlace(
            scope="user",
            format="yaml",
            paths=make_paths("{CONTINUE_GLOBAL_DIR:-~/.continue}/config.yaml"),
            within=("mcpServers",),
            listed=True,
            opening="name: Local Config\nversion: 1.0.0\nschema: v1\n",  # without these Continue refuses the file
        ),
    ),
    shape={"name": "{name}", **_STDIO},
    reference_syntax=ReferenceSyntax(
        template="${{ secrets.{name} }}", pattern=rf"\$\{{\{{\s*secrets\.{NAME_PATTERN}\s*\}}\}}"
    ),
    programs=("cn",),
    install_traces=make_paths("{CONTINUE_GLOBAL_DIR:-~/.continue}"),
    launch_environment=LaunchEnvironment(has_own_secrets=True),
    next_steps="Continue reloads its configuration when the file is saved; tools are for its agent mode alone.",
    secrets_advice="Write each as NAME=value into ~/.continue/.env: Continue reads its secrets there.",
)
