"""Clients in a terminal as data (see `client.py` for the fields).

The facts are from the documentation and the source code of the clients. docs/clients.md describes them for users.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mcp_bridge._desktop.client import Client, ClientCommand, ConfigPlace, LaunchEnvironment, ReferenceSyntax, Scope
from mcp_bridge._desktop.templates import (
    BARE_REFERENCES,
    CONFIG,
    NEW_SESSION,
    OPENCODE_REFERENCES,
    OPENCODE_REMOTE,
    OPENCODE_STDIO,
    PLAIN,
    PLAIN_REFERENCES,
    REMOTE,
    ROAMING,
    SDK_VARIABLES,
    SHELL_REFERENCES,
    STDIO,
    TERMINAL,
    VARIABLE_NAME,
    make_paths,
    make_places,
)

_CLAUDE_CODE_FILE = "{CLAUDE_CONFIG_DIR:-~}/.claude.json"
CLAUDE_CODE = Client(
    name="claude-code",
    title="Claude Code",
    places=(
        *make_places("json", "mcpServers", _CLAUDE_CODE_FILE, ".mcp.json"),
        ConfigPlace(
            scope="local",
            format="json",
            paths=make_paths(_CLAUDE_CODE_FILE),
            within=("projects", "{folder}", "mcpServers"),
        ),
    ),
    remote_shape={"type": "http", **REMOTE},
    shape={"type": "stdio", **STDIO},
    reference_syntax=SHELL_REFERENCES,
    own_command=ClientCommand(
        program="claude",
        # The name comes before -e, which consumes every word up to the next option.
        add=("mcp", "add", "--scope", "{scope}", "{name}", "{secrets}", "--", "{command}", "{args}"),
        remove=("mcp", "remove", "--scope", "{scope}", "{name}"),
        scopes=("user", "project", "local"),
        secret=("-e", "{secret}={reference}"),
    ),
    programs=("claude",),
    install_traces=make_paths(_CLAUDE_CODE_FILE, "~/.claude"),
    # `claude -p` (2.1.330) sent its first request after 2 s, without the tools of a server that took 10 s.
    launch_environment=LaunchEnvironment(timeout=30.0, first_request=2.0),
    next_steps="Start a new session. A project's servers wait for your approval: /mcp in a session asks for it.",
    removal_steps=NEW_SESSION,
    secrets_advice=TERMINAL.format(title="Claude Code"),
)

CODEX = Client(
    name="codex",
    title="Codex",
    places=make_places("toml", "mcp_servers", "{CODEX_HOME:-~/.codex}/config.toml", ".codex/config.toml"),
    # Without `required`, `codex exec` sends its first request before the tools are there.
    remote_shape={"url": "{url}", "required": True, "bearer_token_env_var": "{token}"},
    shape={**PLAIN, "required": True, "env_vars": "{secrets}"},
    own_command=ClientCommand(
        program="codex",
        # The command has `--env` for values, and nothing for `env_vars`.
        add=("mcp", "add", "{name}", "--", "{command}", "{args}"),
        remove=("mcp", "remove", "{name}"),
        scopes=("user",),
    ),
    programs=("codex",),
    install_traces=make_paths("{CODEX_HOME:-~/.codex}"),
    launch_environment=LaunchEnvironment(
        # Its DEFAULT_ENV_VARS (codex-rs/rmcp-client/src/utils.rs).
        inherited_variables=(*SDK_VARIABLES, "__CF_USER_TEXT_ENCODING", "LANG", "LC_ALL", "TMPDIR", "TZ"),
        # It was ten before March 2026.
        timeout=30.0,
        timeout_key="startup_timeout_sec",
        early_tools_key="required",
    ),
    next_steps="Start a new session; restart the app and the editor's extension, which share the file. A project's "
    "file counts only in a project that Codex trusts.",
    removal_steps=NEW_SESSION,
    secrets_advice="Export them in your shell's profile: Codex passes on the variables that `env_vars` names.",
)

GEMINI_CLI = Client(
    name="gemini-cli",
    title="Gemini CLI",
    places=make_places("jsonc", "mcpServers", "{GEMINI_CLI_HOME:-~}/.gemini/settings.json", ".gemini/settings.json"),
    remote_shape={"type": "http", **REMOTE},
    shape=STDIO,
    reference_syntax=BARE_REFERENCES,
    own_command=ClientCommand(
        program="gemini",
        add=("mcp", "add", "--scope", "{scope}", "{name}", "{command}", "{secrets}", "--", "{args}"),
        remove=("mcp", "remove", "--scope", "{scope}", "{name}"),
        scopes=("user", "project"),
        secret=("-e", "{secret}={reference}"),
        # `mcp add` writes all servers as it has loaded them: values instead of references.
        keeps_references=False,
    ),
    programs=("gemini",),
    install_traces=make_paths("{GEMINI_CLI_HOME:-~}/.gemini"),
    launch_environment=LaunchEnvironment(
        inherited_variables=SDK_VARIABLES, timeout=600.0, timeout_key="timeout", timeout_unit=0.001
    ),
    next_steps="Start a new session in a folder that you trust: Gemini CLI starts no server in other folders.",
    removal_steps=NEW_SESSION,
    secrets_advice=TERMINAL.format(title="Gemini CLI"),
)

# It has no defaults, unlike Gemini CLI.
_QWEN_REFERENCES = ReferenceSyntax(template="${{name}}", pattern=rf"\$\{{?{VARIABLE_NAME}\}}?")
QWEN_CODE = Client(
    name="qwen-code",
    title="Qwen Code",
    # From its documentation and from version 0.24.4.
    places=make_places("jsonc", "mcpServers", "{QWEN_HOME:-~/.qwen}/settings.json", ".qwen/settings.json"),
    # Without `alwaysLoadTools`, the model has to search for the tools: its first request has none of them.
    remote_shape={"httpUrl": "{url}", "headers": "{headers}", "alwaysLoadTools": True},
    shape={**STDIO, "alwaysLoadTools": True},
    reference_syntax=_QWEN_REFERENCES,
    # `qwen mcp add` cannot write `alwaysLoadTools`, and replaces the references in the file by values.
    programs=("qwen",),
    install_traces=make_paths("{QWEN_HOME:-~/.qwen}"),
    launch_environment=LaunchEnvironment(
        timeout=30.0, timeout_key="discoveryTimeoutMs", timeout_unit=0.001, early_tools_key="alwaysLoadTools"
    ),
    next_steps="Start a new session; /mcp lists it. `qwen mcp approve` approves the servers of a project.",
    removal_steps=NEW_SESSION,
    secrets_advice=TERMINAL.format(title="Qwen Code"),
)

GOOSE = Client(
    name="goose",
    title="Goose",
    places=make_places(
        "yaml",
        "extensions",
        {
            # According to its documentation, it does not use Application Support.
            "darwin": ("~/.config/goose/config.yaml",),
            "linux": (f"{CONFIG}/goose/config.yaml",),
            "win32": (f"{ROAMING}/Block/goose/config/config.yaml",),
        },
    ),
    remote_shape={
        "enabled": True,
        "type": "streamable_http",
        "name": "{name}",
        "description": "Tools served by mcp-bridge",
        "uri": "{url}",
        "headers": "{headers}",
        "env_keys": "{secrets}",
        "timeout": 300,
    },
    values_key="envs",
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
    # See ui/desktop/src/components/settings/extensions/deeplink.ts.
    link_programs=("cu", "docker", "jbang", "npx", "uvx"),
    launch_environment=LaunchEnvironment(has_own_secrets=True, timeout=300.0, timeout_key="timeout"),
    next_steps="Start a new session. Restart Goose Desktop if you use it.",
    removal_steps="Goose still has it until you start a new session, and Goose Desktop until you restart it.",
    secrets_advice="Goose looks for them in its environment, then in its keyring: `goose configure` stores them there, "
    "under the extension's environment variables.",
)

OPENCODE = Client(
    name="opencode",
    title="opencode",
    # Version 2 has mcp.servers, and reads `mcp` too.
    places=make_places(
        "jsonc",
        "mcp",
        make_paths(f"{CONFIG}/opencode/opencode.json", f"{CONFIG}/opencode/opencode.jsonc"),
        ["opencode.json", "opencode.jsonc"],
    ),
    remote_shape=OPENCODE_REMOTE,
    shape=OPENCODE_STDIO,
    reference_syntax=OPENCODE_REFERENCES,
    # `opencode mcp add` only works interactively, in a terminal.
    programs=("opencode",),
    install_traces=make_paths(f"{CONFIG}/opencode"),
    launch_environment=LaunchEnvironment(timeout=30.0, timeout_key="timeout", timeout_unit=0.001),
    next_steps="Start a new session; `opencode mcp list` shows whether it is connected.",
    removal_steps=NEW_SESSION,
    secrets_advice=TERMINAL.format(title="opencode"),
)

COPILOT_CLI = Client(
    name="copilot-cli",
    title="Copilot CLI",
    # It reads .mcp.json too, but so does Claude Code, which allows no `tools` in an entry.
    # Version 1.0.102 reads comments in the first file, and ignores a second one that has any.
    places=(
        *make_places("jsonc", "mcpServers", "{COPILOT_HOME:-~/.copilot}/mcp-config.json"),
        ConfigPlace(scope="project", format="json", paths=make_paths(".github/mcp.json"), within=("mcpServers",)),
    ),
    remote_shape={"type": "http", **REMOTE, "tools": ["*"]},
    shape={"type": "local", **STDIO, "tools": ["*"]},
    reference_syntax=BARE_REFERENCES,
    programs=("copilot",),
    install_traces=make_paths("{COPILOT_HOME:-~/.copilot}"),
    next_steps="Start a new session in a folder that you trust; /mcp show lists it.",
    removal_steps=NEW_SESSION,
    secrets_advice=TERMINAL.format(title="Copilot CLI"),
)

AMP = Client(
    name="amp",
    title="Amp",
    # `amp mcp list` of September 2026 lists the servers of these files, also with comments. The folder on Windows is
    # from two guides that disagree, and references are described only by others: neither could be checked.
    places=make_places(
        "jsonc",
        "amp.mcpServers",
        {
            "darwin": (f"{CONFIG}/amp/settings.json", f"{CONFIG}/amp/settings.jsonc"),
            "linux": (f"{CONFIG}/amp/settings.json", f"{CONFIG}/amp/settings.jsonc"),
            "win32": ("~/.config/amp/settings.json", "~/.config/amp/settings.jsonc", f"{ROAMING}/amp/settings.json"),
        },
        [".amp/settings.json", ".amp/settings.jsonc"],
    ),
    remote_shape=REMOTE,
    shape=STDIO,
    reference_syntax=PLAIN_REFERENCES,
    programs=("amp",),
    install_traces={**make_paths(f"{CONFIG}/amp"), "win32": ("~/.config/amp", f"{ROAMING}/amp")},
    next_steps="Start a new session. `amp mcp approve` approves the servers of a project.",
    removal_steps=NEW_SESSION,
    secrets_advice=TERMINAL.format(title="Amp"),
)

_CRUSH_PATHS: Mapping[Scope, Sequence[str]] = {
    "user": (f"{CONFIG}/crush/crushrc",),
    "project": (".crushrc", "crushrc"),
}
CRUSH = Client(
    name="crush",
    title="Crush",
    # From docs/config/README.md of Crush. Its older crush.json is deprecated.
    places=tuple(
        ConfigPlace(scope=scope, format="json", paths=make_paths(*paths), within=(), script=("mcp", "add", "{name}"))
        for scope, paths in _CRUSH_PATHS.items()
    ),
    remote_shape={"type": "http", "url": "{url}", "header": "{headers}"},
    shape={"type": "stdio", **STDIO},
    reference_syntax=BARE_REFERENCES,
    programs=("crush",),
    install_traces=make_paths(f"{CONFIG}/crush"),
    launch_environment=LaunchEnvironment(timeout=10.0),
    next_steps=NEW_SESSION,
    secrets_advice=TERMINAL.format(title="Crush"),
)
