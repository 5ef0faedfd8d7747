"""Rows of the table: editors and what lives in them."""

from __future__ import annotations

from mcp_bridge.clients.client import Client, Dialect, Place, Surroundings
from mcp_bridge.clients.table_parts import (
    CONFIG,
    NAME,
    OF_EDITORS,
    ROAMING,
    SAFE,
    SUPPORT,
    everywhere,
    of_app,
)

_STDIO = {"command": "{command}", "args": "{args}", "env": "{env}"}
_TYPED = {"type": "stdio", **_STDIO}
_SHELL = "{title} takes its variables from your login shell: export them in its profile, then restart {title}."
_CLINE = "cline_mcp_settings.json"

VSCODE = Client(
    name="vscode",
    title="VS Code",
    places=(
        Place(scope="user", format="jsonc", paths=of_app("Code/User/mcp.json"), within=("servers",)),
        Place(scope="project", format="jsonc", paths=everywhere(".vscode/mcp.json"), within=("servers",)),
    ),
    shape=_TYPED,
    # An input would be asked for and kept by VS Code, but is a second entry, which the last server that needs it
    # would have to take along; a variable is one edit.
    dialect=OF_EDITORS,
    # `code --add-mcp` hands the server to a window and returns before the file is written: nothing to check then.
    programs=("code",),
    traces=of_app("Code/User"),
    link="vscode:mcp/install?{full}",
    after="VS Code asks whether you trust the server when it first starts it; `MCP: List Servers` starts it.",
    secrets=_SHELL.format(title="VS Code"),
)

CURSOR = Client(
    name="cursor",
    title="Cursor",
    places=(
        Place(scope="user", format="jsonc", paths=everywhere("~/.cursor/mcp.json"), within=("mcpServers",)),
        Place(scope="project", format="jsonc", paths=everywhere(".cursor/mcp.json"), within=("mcpServers",)),
    ),
    shape=_STDIO,
    dialect=OF_EDITORS,
    programs=("cursor",),
    traces={**everywhere("~/.cursor"), "darwin": ("/Applications/Cursor.app", "~/.cursor")},
    link="cursor://anysphere.cursor-deeplink/mcp/install?name={name}&config={base64}",
    after="Switch it on under Settings, MCP, if Cursor has not done so by itself.",
    secrets=_SHELL.format(title="Cursor"),
)

WINDSURF = Client(
    name="windsurf",
    title="Windsurf",
    places=(
        Place(
            scope="user",
            format="jsonc",
            paths=everywhere("~/.codeium/windsurf/mcp_config.json"),
            within=("mcpServers",),
        ),
    ),
    shape=_STDIO,
    dialect=OF_EDITORS,
    programs=("windsurf",),
    traces=everywhere("~/.codeium/windsurf"),
    surroundings=Surroundings(folder="home"),
    after="Press Refresh in Cascade's MCP settings, or restart Windsurf.",
    after_removal="Press Refresh in Cascade's MCP settings, or restart Windsurf.",
    secrets=_SHELL.format(title="Windsurf"),
)

ZED = Client(
    name="zed",
    title="Zed",
    places=(
        Place(
            scope="user",
            format="jsonc",
            paths={
                "darwin": ("~/.config/zed/settings.json",),  # not Application Support, where its extensions are
                "linux": (f"{CONFIG}/zed/settings.json", "~/.var/app/dev.zed.Zed/config/zed/settings.json"),
                "win32": (f"{ROAMING}/Zed/settings.json",),
            },
            within=("context_servers",),
        ),
        Place(scope="project", format="jsonc", paths=everywhere(".zed/settings.json"), within=("context_servers",)),
    ),
    shape={"command": "{command}", "args": "{args}"},
    programs=("zed", "zeditor"),
    traces={
        "darwin": ("/Applications/Zed.app", "~/.config/zed"),
        "linux": (f"{CONFIG}/zed", "~/.var/app/dev.zed.Zed"),
        "win32": (f"{ROAMING}/Zed",),
    },
    after="Zed starts it at once; its dot in the Agent Panel's settings turns green.",
    secrets="Zed has no way to refer to a variable, but hands on those of your login shell: export them in its "
    "profile, then restart Zed.",
)

CLINE = Client(
    name="cline",
    title="Cline",
    places=(
        Place(
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
    dialect=Dialect(write="${env:{name}}", read=rf"\$\{{env:{NAME}\}}"),  # as editors, since 3.43 (pull 8079)
    programs=("cline",),
    traces={
        "darwin": ("~/.cline/data", f"{SUPPORT}/Code/User/globalStorage/saoudrizwan.claude-dev"),
        "linux": ("~/.cline/data", f"{CONFIG}/Code/User/globalStorage/saoudrizwan.claude-dev"),
        "win32": ("~/.cline/data", f"{ROAMING}/Code/User/globalStorage/saoudrizwan.claude-dev"),
    },
    surroundings=Surroundings(inherits=SAFE, folder="home", patience_key="timeout"),
    after="Cline starts it when the file is saved; the MCP Servers panel shows it.",
    secrets="Cline takes them from the editor that it runs in: export them in your shell's profile, then restart it.",
)

CONTINUE = Client(
    name="continue",
    title="Continue",
    places=(
        Place(
            scope="user",
            format="yaml",
            paths=everywhere("{CONTINUE_GLOBAL_DIR:-~/.continue}/config.yaml"),
            within=("mcpServers",),
            listed=True,
            opening="name: Local Config\nversion: 1.0.0\nschema: v1\n",  # without these Continue refuses the file
        ),
    ),
    shape={"name": "{name}", **_STDIO},
    dialect=Dialect(write="${{ secrets.{name} }}", read=rf"\$\{{\{{\s*secrets\.{NAME}\s*\}}\}}"),
    programs=("cn",),
    traces=everywhere("{CONTINUE_GLOBAL_DIR:-~/.continue}"),
    surroundings=Surroundings(keeps_secrets=True),
    after="Continue reloads its configuration when the file is saved; tools are for its agent mode alone.",
    secrets="Write each as NAME=value into ~/.continue/.env: Continue reads its secrets there.",
)
