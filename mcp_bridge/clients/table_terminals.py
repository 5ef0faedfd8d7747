"""Rows of the table: clients of the terminal."""

from __future__ import annotations

from mcp_bridge.clients.client import Client, Dialect, OwnCommand, Place, Surroundings
from mcp_bridge.clients.table_parts import BARE, CONFIG, NAME, SAFE, SHELL, everywhere

_STDIO = {"command": "{command}", "args": "{args}", "env": "{env}"}
_OF_CLAUDE = "{CLAUDE_CONFIG_DIR:-~}/.claude.json"
_EXPORT = "Export them in your shell's profile: {title} takes them from the terminal that it is started in."

CLAUDE_CODE = Client(
    name="claude-code",
    title="Claude Code",
    places=(
        Place(scope="user", format="json", paths=everywhere(_OF_CLAUDE), within=("mcpServers",)),
        Place(scope="project", format="json", paths=everywhere(".mcp.json"), within=("mcpServers",)),
        Place(
            scope="local",
            format="json",
            paths=everywhere(_OF_CLAUDE),
            within=("projects", "{folder}", "mcpServers"),
        ),
    ),
    shape={"type": "stdio", **_STDIO},
    dialect=SHELL,
    own=OwnCommand(
        program="claude",
        # The name before -e, which takes every word up to the next option.
        add=("mcp", "add", "--scope", "{scope}", "{name}", "{secrets}", "--", "{command}", "{args}"),
        remove=("mcp", "remove", "--scope", "{scope}", "{name}"),
        scopes=("user", "project", "local"),
        secret=("-e", "{secret}={reference}"),
    ),
    programs=("claude",),
    traces=everywhere(_OF_CLAUDE, "~/.claude"),
    surroundings=Surroundings(patience=30.0),
    after="Start a new session. A project's servers wait for your approval: /mcp in a session asks for it.",
    after_removal="Start a new session; those that are open still have it.",
    secrets=_EXPORT.format(title="Claude Code"),
)

CODEX = Client(
    name="codex",
    title="Codex",
    places=(
        Place(
            scope="user",
            format="toml",
            paths=everywhere("{CODEX_HOME:-~/.codex}/config.toml"),
            within=("mcp_servers",),
        ),
        Place(scope="project", format="toml", paths=everywhere(".codex/config.toml"), within=("mcp_servers",)),
    ),
    shape={"command": "{command}", "args": "{args}", "env_vars": "{secrets}"},
    own=OwnCommand(
        program="codex",
        add=("mcp", "add", "{name}", "--", "{command}", "{args}"),  # knows values (--env), not env_vars
        remove=("mcp", "remove", "{name}"),
        scopes=("user",),
    ),
    programs=("codex",),
    traces=everywhere("{CODEX_HOME:-~/.codex}"),
    surroundings=Surroundings(
        # Its DEFAULT_ENV_VARS (codex-rs/rmcp-client/src/utils.rs).
        inherits=(*SAFE, "__CF_USER_TEXT_ENCODING", "LANG", "LC_ALL", "TMPDIR", "TZ"),
        patience=30.0,  # ten before March 2026
        patience_key="startup_timeout_sec",
    ),
    after="Start a new session; the app and the editor's extension share the file and have to be restarted. A "
    "project's file counts only in a project that Codex trusts.",
    after_removal="Start a new session; those that are open still have it.",
    secrets="Export them in your shell's profile: Codex hands on the variables that `env_vars` names.",
)

GEMINI_CLI = Client(
    name="gemini-cli",
    title="Gemini CLI",
    places=(
        Place(
            scope="user",
            format="jsonc",
            paths=everywhere("{GEMINI_CLI_HOME:-~}/.gemini/settings.json"),
            within=("mcpServers",),
        ),
        Place(scope="project", format="jsonc", paths=everywhere(".gemini/settings.json"), within=("mcpServers",)),
    ),
    shape=_STDIO,
    dialect=BARE,
    own=OwnCommand(
        program="gemini",
        add=("mcp", "add", "--scope", "{scope}", "{name}", "{command}", "{secrets}", "--", "{args}"),
        remove=("mcp", "remove", "--scope", "{scope}", "{name}"),
        scopes=("user", "project"),
        secret=("-e", "{secret}={reference}"),
        # `mcp add` writes the servers as it has loaded them, values in place of references.
        keeps_references=False,
    ),
    programs=("gemini",),
    traces=everywhere("{GEMINI_CLI_HOME:-~}/.gemini"),
    surroundings=Surroundings(inherits=SAFE, patience=600.0, patience_key="timeout", patience_unit=0.001),
    after="Start a new session, in a folder that you trust: Gemini CLI starts no server in another one.",
    after_removal="Start a new session; those that are open still have it.",
    secrets=_EXPORT.format(title="Gemini CLI"),
)

OPENCODE = Client(
    name="opencode",
    title="opencode",
    places=(
        Place(
            scope="user",
            format="jsonc",
            paths=everywhere(f"{CONFIG}/opencode/opencode.json", f"{CONFIG}/opencode/opencode.jsonc"),
            within=("mcp",),  # version 2 has mcp.servers, and reads this one too
        ),
        Place(
            scope="project",
            format="jsonc",
            paths=everywhere("opencode.json", "opencode.jsonc"),
            within=("mcp",),
        ),
    ),
    shape={"type": "local", "command": "{argv}", "enabled": True, "environment": "{env}"},
    dialect=Dialect(write="{env:{name}}", read=rf"\{{env:{NAME}\}}", unset="empty"),
    # `opencode mcp add` asks its questions in the terminal and takes no answers otherwise.
    programs=("opencode",),
    traces=everywhere(f"{CONFIG}/opencode"),
    surroundings=Surroundings(patience=30.0, patience_key="timeout", patience_unit=0.001),
    after="Start a new session; `opencode mcp list` shows whether it is connected.",
    after_removal="Start a new session; those that are open still have it.",
    secrets=_EXPORT.format(title="opencode"),
)

COPILOT_CLI = Client(
    name="copilot-cli",
    title="Copilot CLI",
    places=(
        Place(
            scope="user",
            format="jsonc",
            paths=everywhere("{COPILOT_HOME:-~/.copilot}/mcp-config.json"),
            within=("mcpServers",),
        ),
        # It reads .mcp.json too, but so does Claude Code, which takes no `tools` in an entry.
        Place(scope="project", format="jsonc", paths=everywhere(".github/mcp.json"), within=("mcpServers",)),
    ),
    shape={"type": "local", **_STDIO, "tools": ["*"]},
    dialect=BARE,
    programs=("copilot",),
    traces=everywhere("{COPILOT_HOME:-~/.copilot}"),
    surroundings=Surroundings(inherits=SAFE),
    after="Start a new session, in a folder that you trust; /mcp show lists it.",
    after_removal="Start a new session; those that are open still have it.",
    secrets=_EXPORT.format(title="Copilot CLI"),
)
