"""The trials of `make test-clients`: each client, how to install the bridge in it, and its expected report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One way to install the bridge in one client.

    Attributes:
        install_arguments: The arguments of `mcp-bridge install`.
        report_command: The client's command for a report on its servers.
        pattern_with: A pattern in the report if the bridge is installed.
        pattern_without: A pattern in the report if it is not.
        file: A file of the client, which has `content` before the installation and again after the removal.
        other_files: Further files of the client, by their paths.
        longer_timeout: A file of the client, and a longer timeout for the beginning of an entry in it.
        has_model: Whether the report is of a conversation with the model of `model_endpoint.py`.
    """

    client: str
    install_arguments: Sequence[str]
    report_command: Sequence[str]
    pattern_with: str
    pattern_without: str
    file: str = ""
    content: str = ""
    other_files: Mapping[str, str] = field(default_factory=dict)
    longer_timeout: tuple[str, str] | None = None
    has_model: bool = False


USE = "--use-client-command"
CLAUDE = ("claude", "mcp", "list")
GEMINI = ("gemini", "mcp", "list")
CODEX = ("codex", "mcp", "get", "shelf", "--json")
INSPECTOR = ("mcp-inspector", "--cli", "--config", "{project}/.mcp.json", "--server", "shelf", "--protocol-era", "auto")
CALL = ("--method", "tools/call", "--tool-name", "add", "--tool-args-json", '{"a": 19, "b": 23}')
TRUSTED = {".gemini/trustedFolders.json": '{"{project}": "TRUST_FOLDER"}'}
ONE_LINE = '{"theme":"dark", "mcpServers": {"other": {"command": "/bin/false", "args": ["--x"]}},\r\n  "last": 1 }'
# Without this entry, `gemini mcp list` waits only 5 seconds for a server.
PATIENT = (".gemini/settings.json", '"timeout": 60000, ')
COMMENTED = '// mine\n{\n  "mcpServers": {\n    "other": {"command": "/bin/false"}, // not ours\n  },\n}\n'
# The first request to the model has the tool, and its call succeeds.
CALLED = r"\Atools of the request: [^\n]*shelf[-_]+add\b[^\n]*\nresult: [^\n]*42"
NOT_OFFERED = r"\Atools of the request: (?![^\n]*shelf)"
PATIENT_QWEN = (".qwen/settings.json", '"discoveryTimeoutMs": 60000, ')
ALONE = r"\A(?![\s\S]*shelf:)[\s\S]*\bother: "
NONE = "No MCP server named 'shelf' found"
TRIALS = (
    Trial(
        client="claude-code",
        install_arguments=("claude-code", USE),
        report_command=CLAUDE,
        pattern_with="shelf: .* ✔ Connected",
        pattern_without="No MCP servers configured",
    ),
    Trial(
        client="claude-code",
        install_arguments=("claude-code",),
        report_command=CLAUDE,
        pattern_with="shelf: .* ✔ Connected",
        pattern_without=ALONE,
        file=".claude.json",
        content=ONE_LINE,
    ),
    Trial(
        client="gemini-cli",
        install_arguments=("gemini-cli", USE),
        report_command=GEMINI,
        pattern_with="✓ shelf: .* Connected",
        pattern_without="No MCP servers configured",
        other_files=TRUSTED,
        longer_timeout=PATIENT,
    ),
    Trial(
        client="gemini-cli",
        install_arguments=("gemini-cli",),
        report_command=GEMINI,
        pattern_with="✓ shelf: .* Connected",
        pattern_without=ALONE,
        file=".gemini/settings.json",
        # The client reads comments, but no trailing commas.
        content=COMMENTED.replace(", //", " //").replace("},\n}", "}\n}"),
        other_files=TRUSTED,
        longer_timeout=PATIENT,
    ),
    Trial(
        client="qwen-code",
        install_arguments=("qwen-code",),
        report_command=("qwen", "mcp", "list"),
        pattern_with="✓ shelf: .* Connected",
        pattern_without=ALONE,
        file=".qwen/settings.json",
        # The client reads comments, but no trailing commas.
        content=COMMENTED.replace(", //", " //").replace("},\n}", "}\n}"),
        longer_timeout=PATIENT_QWEN,
    ),
    Trial(
        client="qwen-code",
        install_arguments=("qwen-code", "--scope", "project"),
        report_command=("qwen", "-p", "Add 19 and 23.", "--yolo"),
        pattern_with=CALLED,
        pattern_without=NOT_OFFERED,
        has_model=True,
    ),
    Trial(
        client="copilot-cli",
        install_arguments=("copilot-cli",),
        report_command=("copilot", "-p", "Add 19 and 23.", "--allow-all-tools"),
        pattern_with=CALLED,
        pattern_without=NOT_OFFERED,
        file=".copilot/mcp-config.json",
        content=COMMENTED.replace('"/bin/false"', '"/bin/false", "type": "local", "args": [], "tools": []'),
        has_model=True,
    ),
    Trial(
        client="copilot-cli",
        install_arguments=("copilot-cli", "--scope", "project"),
        report_command=("copilot", "-p", "Add 19 and 23.", "--allow-all-tools", "--trust-folder"),
        pattern_with=CALLED,
        pattern_without=NOT_OFFERED,
        has_model=True,
    ),
    Trial(
        client="opencode",
        install_arguments=("opencode",),
        report_command=("opencode", "mcp", "list"),
        pattern_with="✓ +shelf +connected",
        pattern_without=r"other disabled[^✓✗]* 1 server\(s\)",
        file=".config/opencode/opencode.json",
        content=COMMENTED.replace("mcpServers", "mcp").replace(
            '{"command": "/bin/false"}', '{"type": "local", "command": ["/bin/false"], "enabled": false}'
        ),
    ),
    Trial(
        client="codex",
        install_arguments=("codex", USE),
        report_command=CODEX,
        pattern_with='"command": ".*/mcp-bridge"',
        pattern_without=NONE,
    ),
    Trial(
        client="codex",
        install_arguments=("codex",),
        report_command=CODEX,
        pattern_with='"command": ".*/mcp-bridge"',
        pattern_without=NONE,
        file=".codex/config.toml",
        content='# mine\nmodel = "x"\n\n[mcp_servers.other]   # not ours\ncommand = "/bin/false"\n',
    ),
    Trial(
        client="inspector",
        install_arguments=("claude-code", "--scope", "project"),
        report_command=(*INSPECTOR, *CALL),
        pattern_with='"text": "42"',
        pattern_without="Config file not found",
    ),
)
