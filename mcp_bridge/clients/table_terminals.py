"""Rows of the table: clients of the terminal."""

from __future__ import annotations

from mcp_bridge.clients.client import Client, ClientCommand, ConfigPlace, LaunchEnvironment, ReferenceSyntax
from mcp_bridge.clients.table_parts import (
    BARE_REFERENCES,
    CONFIG,
    NAME_PATTERN,
    SDK_VARIABLES,
    SHELL_REFERENCES,
    make_paths,
)

_STDIO = {"command": "{command}", "args": "{args}", "env": "{env}"}
_OF_CLAUDE = "{CLAUDE_CONFIG_DIR:-~}/.claude.json"
_EXPORT = "Export them in your shell's profile: {title} takes them from the terminal that it is started in."

CLAUDE_CODE = Client(
    name="claude-code",
    title="Claude Code",
    places=(
        ConfigPlace(scope="user", format="json", paths=make_paths(_OF_CLAUDE), within=("mcpServers",)),
        ConfigPlace(scope="project", format="json", paths=make_paths(".mcp.json"), within=("mcpServers",)),
        ConfigPlace(
            scope="local", format="json", paths=make_paths(_OF_CLAUDE), within=("projects", "{folder}", "mcpServers")
        ),
    ),
    shape={"type": "stdio", **_STDIO},
    reference_syntax=SHELL_REFERENCES,
    own_command=ClientCommand(
        program="claude",
        # The name before -e, which takes every word up to the next option.
        add=("mcp", "add", "--scope", "{scope}", "{name}", "{secrets}", "--", "{command}", "{args}"),
        remove=("mcp", "remove", "--scope", "{scope}", "{name}"),
        scopes=("user", "project", "local"),
        secret=("-e", "{secret}={reference}"),
    ),
    programs=("claude",),
    install_traces=make_paths(_OF_CLAUDE, "~/.claude"),
    launch_environment=LaunchEnvironment(timeout=30.0),
    next_steps="Start a new session. A project's servers wait for your approval: /mcp in a session asks for it.",
    removal_steps="Start a new session; those that are open still have it.",
    secrets_advice=_EXPORT.format(title="Claude Code"),
)

CODEX = Client(
    name="codex",
    title="Codex",
    places=(
        ConfigPlace(
            scope="user", format="toml", paths=make_paths("{CODEX_HOME:-~/.codex}/config.toml"), within=("mcp_servers",)
        ),
        ConfigPlace(scope="project", format="toml", paths=make_paths(".codex/config.toml"), within=("mcp_servers",)),
    ),
    shape={"command": "{command}", "args": "{args}", "env_vars": "{secrets}"},
    own_command=ClientCommand(
        program="codex",
        add=("mcp", "add", "{name}", "--", "{command}", "{args}"),  # knows values (--env), not env_vars
        remove=("mcp", "remove", "{name}"),
        scopes=("user",),
    ),
    programs=("codex",),
    install_traces=make_paths("{CODEX_HOME:-~/.codex}"),
    launch_environment=LaunchEnvironment(
        # Its DEFAULT_ENV_VARS (codex-rs/rmcp-client/src/utils.rs).
        inherited_variables=(*SDK_VARIABLES, "__CF_USER_TEXT_ENCODING", "LANG", "LC_ALL", "TMPDIR", "TZ"),
        timeout=30.0,  # ten before March 2026
        timeout_key="startup_timeout_sec",
    ),
    next_steps="Start a new session; the app and the editor's extension share the file and have to be restarted. A "
    "project's file counts only in a project that Codex trusts.",
    removal_steps="Start a new session; those that are open still have it.",
    secrets_advice="Export them in your shell's profile: Codex hands on the variables that `env_vars` names.",
)

GEMINI_CLI = Client(
    name="gemini-cli",
    title="Gemini CLI",
    places=(
        ConfigPlace(
            scope="user",
            format="jsonc",
            paths=make_paths("{GEMINI_CLI_HOME:-~}/.gemini/settings.json"),
            within=("mcpServers",),
        ),
        ConfigPlace(scope="project", format="jsonc", paths=make_paths(".gemini/settings.json"), within=("mcpServers",)),
    ),
    shape=_STDIO,
    reference_syntax=BARE_REFERENCES,
    own_command=ClientCommand(
        program="gemini",
        add=("mcp", "add", "--scope", "{scope}", "{name}", "{command}", "{secrets}", "--", "{args}"),
        remove=("mcp", "remove", "--scope", "{scope}", "{name}"),
        scopes=("user", "project"),
        secret=("-e", "{secret}={reference}"),
        # `mcp add` writes the servers as it has loaded them, values in place of references.
        keeps_references=False,
    ),
    programs=("gemini",),
    install_traces=make_paths("{GEMINI_CLI_HOME:-~}/.gemini"),
    launch_environment=LaunchEnvironment(
        inherited_variables=SDK_VARIABLES, timeout=600.0, timeout_key="timeout", timeout_unit=0.001
    ),
    next_steps="Start a new session, in a folder that you trust: Gemini CLI starts no server in another one.",
    removal_steps="Start a new session; those that are open still have it.",
    secrets_advice=_EXPORT.format(title="Gemini CLI"),
)

OPENCODE = Client(
    name="opencode",
    title="opencode",
    places=(
        ConfigPlace(
            scope="user",
            format="jsonc",
            paths=make_paths(f"{CONFIG}/opencode/opencode.json", f"{CONFIG}/opencode/opencode.jsonc"),
            within=("mcp",),  # version 2 has mcp.servers, and reads this one too
        ),
        ConfigPlace(
            scope="project", format="jsonc", paths=make_paths("opencode.json", "opencode.jsonc"), within=("mcp",)
        ),
    ),
    shape={"type": "local", "command": "{argv}", "enabled": True, "environment": "{env}"},
    reference_syntax=ReferenceSyntax(template="{env:{name}}", pattern=rf"\{{env:{NAME_PATTERN}\}}", unset="empty"),
    # `opencode mcp add` asks its questions in the terminal and takes no answers otherwise.
    programs=("opencode",),
    install_traces=make_paths(f"{CONFIG}/opencode"),
    launch_environment=LaunchEnvironment(timeout=30.0, timeout_key="timeout", timeout_unit=0.001),
    next_steps="Start a new session; `opencode mcp list` shows whether it is connected.",
    removal_steps="Start a new session; those that are open still have it.",
    secrets_advice=_EXPORT.format(title="opencode"),
)

COPILOT_CLI = Client(
    name="copilot-cli",
    title="Copilot CLI",
    places=(
        ConfigPlace(
            scope="user",
            format="jsonc",
            paths=make_paths("{COPILOT_HOME:-~/.copilot}/mcp-config.json"),
            within=("mcpServers",),
        ),
        # It reads .mcp.json too, but so does Claude Code, which takes no `tools` in an entry.
        ConfigPlace(scope="project", format="jsonc", paths=make_paths(".github/mcp.json"), within=("mcpServers",)),
    ),
    shape={"type": "local", **_STDIO, "tools": ["*"]},
    reference_syntax=BARE_REFERENCES,
    programs=("copilot",),
    install_traces=make_paths("{COPILOT_HOME:-~/.copilot}"),
    launch_environment=LaunchEnvironment(inherited_variables=SDK_VARIABLES),
    next_steps="Start a new session, in a folder that you trust; /mcp show lists it.",
    removal_steps="Start a new session; those that are open still have it.",
    secrets_advice=_EXPORT.format(title="Copilot CLI"),
)
