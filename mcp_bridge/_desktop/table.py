"""The supported clients as data (see `client.py` for the fields).

The facts are from the documentation and the source code of the clients. docs/clients.md describes them for users.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mcp_bridge._desktop.client import Client, ClientCommand, ConfigPlace, LaunchEnvironment, ReferenceSyntax, System
from mcp_bridge._settings.documents.syntax import Format

_SDK_VARIABLES = (
    "HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER",
    "APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PROCESSOR_ARCHITECTURE", "PROGRAMFILES",
    "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE",
)  # fmt: skip
"""The variables that the transport of the TypeScript SDK passes on: its list for POSIX, then its list for Windows."""

_NAME = r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
_DEFAULT = r"(?::-(?P<default>[^}]*))?"
_SHELL_REFERENCES = ReferenceSyntax(template="${{name}}", pattern=rf"\$\{{{_NAME}{_DEFAULT}\}}")
"""References such as `${NAME}` and `${NAME:-default}`."""
_BARE_REFERENCES = ReferenceSyntax(template="${{name}}", pattern=rf"\$\{{?{_NAME}(?:{_DEFAULT}\}})?")
"""References such as `${NAME}`, `${NAME:-default}` and `$NAME`."""
_EDITOR_REFERENCES = ReferenceSyntax(template="${env:{name}}", pattern=rf"\$\{{env:{_NAME}\}}", unset="empty")
"""References such as `${env:NAME}`, as VS Code has them."""

_ROAMING = "{APPDATA:-~/AppData/Roaming}"
_LOCAL = "{LOCALAPPDATA:-~/AppData/Local}"
_CONFIG = "{XDG_CONFIG_HOME:-~/.config}"
_SUPPORT = "~/Library/Application Support"

_PLAIN = {"command": "{command}", "args": "{args}"}
_STDIO = {**_PLAIN, "env": "{env}"}

_REMOTE = {"url": "{url}", "headers": "{headers}"}

_NEW_SESSION = "Start a new session; open sessions still have it."
_NO_REFERENCES = (
    "{title} does not support references to variables, and mcp-bridge never writes a value here: without more "
    "setup, the bridge will not start in it. "
)
_LOGIN_SHELL = "{title} takes its variables from your login shell: export them in its profile, then restart {title}."
_TERMINAL = "Export them in your shell's profile: {title} takes them from the terminal in which it is started."


def _make_paths(*paths: str) -> Mapping[System, Sequence[str]]:
    return {"darwin": paths, "linux": paths, "win32": paths}


def _make_app_paths(path: str, *, before: Sequence[str] = ()) -> Mapping[System, Sequence[str]]:
    """Return a path in the folder of each system for the settings of desktop programs, after those in `before`."""
    folders: Mapping[System, str] = {"darwin": _SUPPORT, "linux": _CONFIG, "win32": _ROAMING}
    return {system: (*before, f"{folder}/{path}") for system, folder in folders.items()}


def _make_places(
    format: Format, key: str, user: str | Mapping[System, Sequence[str]], project: str | Sequence[str] = ()
) -> Sequence[ConfigPlace]:
    """Return the place of the user and, if there are paths for it, that of a project. Both have servers under `key`."""
    paths = _make_paths(user) if isinstance(user, str) else user
    places = [ConfigPlace(scope="user", format=format, paths=paths, within=(key,))]
    if project:
        paths = _make_paths(project) if isinstance(project, str) else _make_paths(*project)
        places.append(ConfigPlace(scope="project", format=format, paths=paths, within=(key,)))
    return tuple(places)


_CLAUDE_DESKTOP_FILE = "Claude/claude_desktop_config.json"
_CLAUDE_DESKTOP = Client(
    name="claude-desktop",
    title="Claude Desktop",
    places=_make_places(
        "json",
        "mcpServers",
        {
            **_make_app_paths(_CLAUDE_DESKTOP_FILE),
            # Since February 2026 Windows has it as a package, which sees this folder in place of Roaming.
            "win32": (
                f"{_LOCAL}/Packages/Claude_*/LocalCache/Roaming/{_CLAUDE_DESKTOP_FILE}",
                f"{_ROAMING}/{_CLAUDE_DESKTOP_FILE}",
            ),
        },
    ),
    shape=_PLAIN,
    install_traces={
        "darwin": ("/Applications/Claude.app", f"{_SUPPORT}/Claude"),
        "linux": (f"{_CONFIG}/Claude",),
        "win32": (f"{_ROAMING}/Claude", f"{_LOCAL}/Packages/Claude_*/LocalCache"),
    },
    launch_environment=LaunchEnvironment(is_desktop=True, inherited_variables=_SDK_VARIABLES, folder="root"),
    next_steps="Quit Claude Desktop completely (macOS: Cmd+Q; Windows: Quit in the tray's menu; closing its window is "
    "not enough) and start it again.",
    removal_steps="Claude Desktop still has it until you quit it completely and start it again.",
    secrets_advice=_NO_REFERENCES.format(title="Claude Desktop")
    + "Make a bundle instead (mcp-bridge export mcpb): Claude Desktop asks for the values and keeps them.",
)

_CLAUDE_CODE_FILE = "{CLAUDE_CONFIG_DIR:-~}/.claude.json"
_CLAUDE_CODE = Client(
    name="claude-code",
    title="Claude Code",
    places=(
        *_make_places("json", "mcpServers", _CLAUDE_CODE_FILE, ".mcp.json"),
        ConfigPlace(
            scope="local",
            format="json",
            paths=_make_paths(_CLAUDE_CODE_FILE),
            within=("projects", "{folder}", "mcpServers"),
        ),
    ),
    remote_shape={"type": "http", **_REMOTE},
    shape={"type": "stdio", **_STDIO},
    reference_syntax=_SHELL_REFERENCES,
    own_command=ClientCommand(
        program="claude",
        # The name comes before -e, which consumes every word up to the next option.
        add=("mcp", "add", "--scope", "{scope}", "{name}", "{secrets}", "--", "{command}", "{args}"),
        remove=("mcp", "remove", "--scope", "{scope}", "{name}"),
        scopes=("user", "project", "local"),
        secret=("-e", "{secret}={reference}"),
    ),
    programs=("claude",),
    install_traces=_make_paths(_CLAUDE_CODE_FILE, "~/.claude"),
    # `claude -p` (2.1.330) sent its first request after 2 s, without the tools of a server that took 10 s.
    launch_environment=LaunchEnvironment(timeout=30.0, first_request=2.0),
    next_steps="Start a new session. A project's servers wait for your approval: /mcp in a session asks for it.",
    removal_steps=_NEW_SESSION,
    secrets_advice=_TERMINAL.format(title="Claude Code"),
)

_VSCODE = Client(
    name="vscode",
    title="VS Code",
    places=_make_places("jsonc", "servers", _make_app_paths("Code/User/mcp.json"), ".vscode/mcp.json"),
    remote_shape={"type": "http", **_REMOTE},
    shape={"type": "stdio", **_STDIO},
    # VS Code would ask for an input and keep it, but an input is a second entry, which the removal of the last server
    # that needs it would have to remove too; a variable needs one edit.
    reference_syntax=_EDITOR_REFERENCES,
    # `code --add-mcp` passes the server to a window and returns before the file is written: nothing to check then.
    programs=("code",),
    install_traces=_make_app_paths("Code/User"),
    link="vscode:mcp/install?{full}",
    next_steps="VS Code asks whether you trust the server when it first starts it; `MCP: List Servers` starts it.",
    secrets_advice=_LOGIN_SHELL.format(title="VS Code"),
)

_CURSOR = Client(
    name="cursor",
    title="Cursor",
    places=_make_places("jsonc", "mcpServers", "~/.cursor/mcp.json", ".cursor/mcp.json"),
    remote_shape=_REMOTE,
    shape=_STDIO,
    reference_syntax=_EDITOR_REFERENCES,
    programs=("cursor",),
    install_traces={**_make_paths("~/.cursor"), "darwin": ("/Applications/Cursor.app", "~/.cursor")},
    link="cursor://anysphere.cursor-deeplink/mcp/install?name={name}&config={base64}",
    next_steps="Switch it on under Settings, MCP, if Cursor has not done so by itself.",
    secrets_advice=_LOGIN_SHELL.format(title="Cursor"),
)

_WINDSURF = Client(
    name="windsurf",
    title="Windsurf",
    places=_make_places("jsonc", "mcpServers", "~/.codeium/windsurf/mcp_config.json"),
    remote_shape={"serverUrl": "{url}", "headers": "{headers}"},
    shape=_STDIO,
    reference_syntax=_EDITOR_REFERENCES,
    programs=("windsurf",),
    install_traces=_make_paths("~/.codeium/windsurf"),
    launch_environment=LaunchEnvironment(folder="home"),
    next_steps="Press Refresh in Cascade's MCP settings, or restart Windsurf.",
    removal_steps="Press Refresh in Cascade's MCP settings, or restart Windsurf.",
    secrets_advice=_LOGIN_SHELL.format(title="Windsurf"),
)

_ZED = Client(
    name="zed",
    title="Zed",
    places=_make_places(
        "jsonc",
        "context_servers",
        {
            # Its settings are not in Application Support, where its extensions are.
            "darwin": ("~/.config/zed/settings.json",),
            "linux": (f"{_CONFIG}/zed/settings.json", "~/.var/app/dev.zed.Zed/config/zed/settings.json"),
            "win32": (f"{_ROAMING}/Zed/settings.json",),
        },
        ".zed/settings.json",
    ),
    remote_shape=_REMOTE,
    shape=_PLAIN,
    programs=("zed", "zeditor"),
    install_traces={
        "darwin": ("/Applications/Zed.app", "~/.config/zed"),
        "linux": (f"{_CONFIG}/zed", "~/.var/app/dev.zed.Zed"),
        "win32": (f"{_ROAMING}/Zed",),
    },
    next_steps="Zed starts it at once; its dot in the Agent Panel's settings turns green.",
    secrets_advice="Zed does not support references to variables, but passes on those of your login shell: export them "
    "in its profile, then restart Zed.",
)

_CODEX = Client(
    name="codex",
    title="Codex",
    places=_make_places("toml", "mcp_servers", "{CODEX_HOME:-~/.codex}/config.toml", ".codex/config.toml"),
    # Without `required`, `codex exec` sends its first request before the tools are there.
    remote_shape={"url": "{url}", "required": True, "bearer_token_env_var": "{token}"},
    shape={**_PLAIN, "required": True, "env_vars": "{secrets}"},
    own_command=ClientCommand(
        program="codex",
        # The command has `--env` for values, and nothing for `env_vars`.
        add=("mcp", "add", "{name}", "--", "{command}", "{args}"),
        remove=("mcp", "remove", "{name}"),
        scopes=("user",),
    ),
    programs=("codex",),
    install_traces=_make_paths("{CODEX_HOME:-~/.codex}"),
    launch_environment=LaunchEnvironment(
        # Its DEFAULT_ENV_VARS (codex-rs/rmcp-client/src/utils.rs).
        inherited_variables=(*_SDK_VARIABLES, "__CF_USER_TEXT_ENCODING", "LANG", "LC_ALL", "TMPDIR", "TZ"),
        # It was ten before March 2026.
        timeout=30.0,
        timeout_key="startup_timeout_sec",
        wait_key="required",
    ),
    next_steps="Start a new session; restart the app and the editor's extension, which share the file. A project's "
    "file counts only in a project that Codex trusts.",
    removal_steps=_NEW_SESSION,
    secrets_advice="Export them in your shell's profile: Codex passes on the variables that `env_vars` names.",
)

_GEMINI_CLI = Client(
    name="gemini-cli",
    title="Gemini CLI",
    places=_make_places("jsonc", "mcpServers", "{GEMINI_CLI_HOME:-~}/.gemini/settings.json", ".gemini/settings.json"),
    remote_shape={"type": "http", **_REMOTE},
    shape=_STDIO,
    reference_syntax=_BARE_REFERENCES,
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
    install_traces=_make_paths("{GEMINI_CLI_HOME:-~}/.gemini"),
    launch_environment=LaunchEnvironment(
        inherited_variables=_SDK_VARIABLES, timeout=600.0, timeout_key="timeout", timeout_unit=0.001
    ),
    next_steps="Start a new session in a folder that you trust: Gemini CLI starts no server in other folders.",
    removal_steps=_NEW_SESSION,
    secrets_advice=_TERMINAL.format(title="Gemini CLI"),
)

_GOOSE = Client(
    name="goose",
    title="Goose",
    places=_make_places(
        "yaml",
        "extensions",
        {
            # According to its documentation, it does not use Application Support.
            "darwin": ("~/.config/goose/config.yaml",),
            "linux": (f"{_CONFIG}/goose/config.yaml",),
            "win32": (f"{_ROAMING}/Block/goose/config/config.yaml",),
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
        "linux": (f"{_CONFIG}/goose",),
        "win32": (f"{_ROAMING}/Block/goose",),
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

_OPENCODE = Client(
    name="opencode",
    title="opencode",
    # Version 2 has mcp.servers, and reads `mcp` too.
    places=_make_places(
        "jsonc",
        "mcp",
        _make_paths(f"{_CONFIG}/opencode/opencode.json", f"{_CONFIG}/opencode/opencode.jsonc"),
        ["opencode.json", "opencode.jsonc"],
    ),
    remote_shape={"type": "remote", **_REMOTE, "enabled": True},
    shape={"type": "local", "command": "{argv}", "enabled": True, "environment": "{env}"},
    reference_syntax=ReferenceSyntax(template="{env:{name}}", pattern=rf"\{{env:{_NAME}\}}", unset="empty"),
    # `opencode mcp add` only works interactively, in a terminal.
    programs=("opencode",),
    install_traces=_make_paths(f"{_CONFIG}/opencode"),
    launch_environment=LaunchEnvironment(timeout=30.0, timeout_key="timeout", timeout_unit=0.001),
    next_steps="Start a new session; `opencode mcp list` shows whether it is connected.",
    removal_steps=_NEW_SESSION,
    secrets_advice=_TERMINAL.format(title="opencode"),
)

_COPILOT_CLI = Client(
    name="copilot-cli",
    title="Copilot CLI",
    # It reads .mcp.json too, but so does Claude Code, which allows no `tools` in an entry.
    places=_make_places("jsonc", "mcpServers", "{COPILOT_HOME:-~/.copilot}/mcp-config.json", ".github/mcp.json"),
    remote_shape={"type": "http", **_REMOTE, "tools": ["*"]},
    shape={"type": "local", **_STDIO, "tools": ["*"]},
    reference_syntax=_BARE_REFERENCES,
    programs=("copilot",),
    install_traces=_make_paths("{COPILOT_HOME:-~/.copilot}"),
    launch_environment=LaunchEnvironment(inherited_variables=_SDK_VARIABLES),
    next_steps="Start a new session in a folder that you trust; /mcp show lists it.",
    removal_steps=_NEW_SESSION,
    secrets_advice=_TERMINAL.format(title="Copilot CLI"),
)

_LM_STUDIO = Client(
    name="lm-studio",
    title="LM Studio",
    # Its documentation has the first path; on some Macs it was seen in the second (lmstudio-bug-tracker 1371).
    places=_make_places("jsonc", "mcpServers", _make_paths("~/.lmstudio/mcp.json", "~/.cache/lm-studio/mcp.json")),
    remote_shape=_REMOTE,
    shape=_PLAIN,
    programs=("lms",),
    install_traces=_make_paths("~/.lmstudio", "~/.cache/lm-studio"),
    link="lmstudio://add_mcp?name={name}&config={base64}",
    launch_environment=LaunchEnvironment(is_desktop=True, folder="home"),
    next_steps="LM Studio loads it when the file is saved; otherwise restart it.",
    secrets_advice=_NO_REFERENCES.format(title="LM Studio")
    + "Set the variables for all programs of your desktop, or give them a default in the settings.",
)

_CLINE_FOLDER = "{CLINE_DATA_DIR:-~/.cline/data}"
_CLINE_STORAGE = "Code/User/globalStorage/saoudrizwan.claude-dev"
_CLINE_FILE = "settings/cline_mcp_settings.json"
_CLINE = Client(
    name="cline",
    title="Cline",
    # Since 3.8x the file is in a folder that editor and command line share; before, it was in the editor's storage.
    places=_make_places(
        "json",
        "mcpServers",
        _make_app_paths(f"{_CLINE_STORAGE}/{_CLINE_FILE}", before=[f"{_CLINE_FOLDER}/{_CLINE_FILE}"]),
    ),
    remote_shape={"type": "streamableHttp", **_REMOTE},
    shape=_STDIO,
    # As in editors, since 3.43 (pull 8079), but a reference to a variable that is not set stays.
    reference_syntax=ReferenceSyntax(template="${env:{name}}", pattern=rf"\$\{{env:{_NAME}\}}"),
    programs=("cline",),
    install_traces=_make_app_paths(_CLINE_STORAGE, before=["~/.cline/data"]),
    launch_environment=LaunchEnvironment(inherited_variables=_SDK_VARIABLES, folder="home", timeout_key="timeout"),
    next_steps="Cline starts it when the file is saved; the MCP Servers panel shows it.",
    secrets_advice="Cline reads them from its editor's environment. Export them in your shell's profile, then restart "
    "the editor.",
)

_CONTINUE = Client(
    name="continue",
    title="Continue",
    places=(
        ConfigPlace(
            scope="user",
            format="yaml",
            paths=_make_paths("{CONTINUE_GLOBAL_DIR:-~/.continue}/config.yaml"),
            within=("mcpServers",),
            listed=True,
            # Continue rejects a file without these.
            opening="name: Local Config\nversion: 1.0.0\nschema: v1\n",
        ),
    ),
    remote_shape={"name": "{name}", "type": "streamable-http", "url": "{url}", "requestOptions": "{options}"},
    shape={"name": "{name}", **_STDIO},
    reference_syntax=ReferenceSyntax(
        template="${{ secrets.{name} }}", pattern=rf"\$\{{\{{\s*secrets\.{_NAME}\s*\}}\}}"
    ),
    programs=("cn",),
    install_traces=_make_paths("{CONTINUE_GLOBAL_DIR:-~/.continue}"),
    launch_environment=LaunchEnvironment(has_own_secrets=True),
    next_steps="Continue reloads its configuration when the file is saved. Only its agent mode uses tools.",
    secrets_advice="Write each as NAME=value into ~/.continue/.env: Continue reads its secrets there.",
)

CLIENTS: Mapping[str, Client] = {
    client.name: client
    for client in (
        _CLAUDE_DESKTOP,
        _CLAUDE_CODE,
        _VSCODE,
        _CURSOR,
        _WINDSURF,
        _ZED,
        _CODEX,
        _GEMINI_CLI,
        _GOOSE,
        _OPENCODE,
        _COPILOT_CLI,
        _LM_STUDIO,
        _CLINE,
        _CONTINUE,
    )
}
