"""Clients that are extensions of editors as data (see `client.py` for the fields).

The facts are from the documentation and the source code of the clients. docs/clients.md describes them for users.
"""

from __future__ import annotations

from dataclasses import replace

from mcp_bridge._desktop.client import Client, ConfigPlace, LaunchEnvironment, ReferenceSyntax
from mcp_bridge._desktop.templates import (
    CONFIG,
    EDITOR_REFERENCES,
    LOGIN_SHELL,
    NEW_SESSION,
    OPENCODE_REFERENCES,
    OPENCODE_REMOTE,
    OPENCODE_STDIO,
    REMOTE,
    SDK_VARIABLES,
    STDIO,
    TERMINAL,
    VARIABLE_NAME,
    make_app_paths,
    make_paths,
    make_places,
)

_KEPT_EDITOR_REFERENCES = replace(EDITOR_REFERENCES, unset="kept")
_CLINE_FOLDER = "{CLINE_DATA_DIR:-~/.cline/data}"
_CLINE_STORAGE = "Code/User/globalStorage/saoudrizwan.claude-dev"
_CLINE_FILE = "settings/cline_mcp_settings.json"
CLINE = Client(
    name="cline",
    title="Cline",
    # Since 3.8x the file is in a folder that editor and command line share; before, it was in the editor's storage.
    places=make_places(
        "json",
        "mcpServers",
        make_app_paths(f"{_CLINE_STORAGE}/{_CLINE_FILE}", before=[f"{_CLINE_FOLDER}/{_CLINE_FILE}"]),
    ),
    remote_shape={"type": "streamableHttp", **REMOTE},
    shape=STDIO,
    # As in editors, since 3.43 (pull 8079), but a reference to a variable that is not set stays.
    reference_syntax=_KEPT_EDITOR_REFERENCES,
    programs=("cline",),
    install_traces=make_app_paths(_CLINE_STORAGE, before=["~/.cline/data"]),
    launch_environment=LaunchEnvironment(inherited_variables=SDK_VARIABLES, folder="home", timeout_key="timeout"),
    next_steps="Cline starts it when the file is saved; the MCP Servers panel shows it.",
    secrets_advice="Cline reads them from its editor's environment. Export them in your shell's profile, then restart "
    "the editor.",
)

_ROO_STORAGE = "Code/User/globalStorage/rooveterinaryinc.roo-cline"
ROO_CODE = Client(
    name="roo-code",
    title="Roo Code",
    # From src/services/mcp/McpHub.ts of version 3.52.1.
    places=make_places(
        "json", "mcpServers", make_app_paths(f"{_ROO_STORAGE}/settings/mcp_settings.json"), ".roo/mcp.json"
    ),
    remote_shape={"type": "streamable-http", **REMOTE},
    shape=STDIO,
    # A reference to a variable that is not set stays.
    reference_syntax=_KEPT_EDITOR_REFERENCES,
    install_traces=make_app_paths(_ROO_STORAGE),
    launch_environment=LaunchEnvironment(inherited_variables=SDK_VARIABLES),
    next_steps="Roo Code starts it when the file is saved; its MCP Servers view shows it.",
    secrets_advice=LOGIN_SHELL.format(title="Roo Code's editor"),
)

KILO_CODE = Client(
    name="kilo-code",
    title="Kilo Code",
    # From packages/kilo-docs of Kilo Code, and `kilo mcp list` of version 7.7.9.
    places=make_places(
        "jsonc",
        "mcp",
        make_paths(f"{CONFIG}/kilo/kilo.jsonc", f"{CONFIG}/kilo/kilo.json"),
        [".kilo/kilo.jsonc", ".kilo/kilo.json", "kilo.jsonc", "kilo.json"],
    ),
    remote_shape=OPENCODE_REMOTE,
    shape=OPENCODE_STDIO,
    reference_syntax=OPENCODE_REFERENCES,
    programs=("kilo", "kilocode"),
    install_traces=make_paths(f"{CONFIG}/kilo"),
    # The extension waits ten seconds, and the command 30.
    launch_environment=LaunchEnvironment(timeout=10.0, timeout_key="timeout", timeout_unit=0.001),
    next_steps="Start a new session; `kilo mcp list` shows whether it is connected. Restart the editor.",
    removal_steps=NEW_SESSION,
    secrets_advice=TERMINAL.format(title="Kilo Code"),
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
            # Continue rejects a file without these.
            opening="name: Local Config\nversion: 1.0.0\nschema: v1\n",
        ),
    ),
    remote_shape={"name": "{name}", "type": "streamable-http", "url": "{url}", "requestOptions": "{options}"},
    shape={"name": "{name}", **STDIO},
    reference_syntax=ReferenceSyntax(
        template="${{ secrets.{name} }}", pattern=rf"\$\{{\{{\s*secrets\.{VARIABLE_NAME}\s*\}}\}}"
    ),
    programs=("cn",),
    install_traces=make_paths("{CONTINUE_GLOBAL_DIR:-~/.continue}"),
    launch_environment=LaunchEnvironment(has_own_secrets=True),
    next_steps="Continue reloads its configuration when the file is saved. Only its agent mode uses tools.",
    secrets_advice="Write each as NAME=value into ~/.continue/.env: Continue reads its secrets there.",
)
