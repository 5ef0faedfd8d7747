"""The trials of `make test-clients`: each client, how to install the bridge in it, and its expected report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One way to install the bridge in one client.

    `into` are the arguments of `install`. `asks` is the client's command for a report on its servers. The report
    matches `sees` with the bridge, and `gone` without it. `file` contains `before` before the installation, and again
    after the removal. `beside` has further files of the client. `patient` is a file of the client, and the beginning of
    an entry in it with a longer timeout.
    """

    client: str
    into: Sequence[str]
    asks: Sequence[str]
    sees: str
    gone: str
    file: str = ""
    before: str = ""
    beside: Mapping[str, str] = field(default_factory=dict)
    patient: tuple[str, str] | None = None


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
ALONE = r"\A(?![\s\S]*shelf:)[\s\S]*\bother: "
NONE = "No MCP server named 'shelf' found"
TRIALS = (
    Trial(
        client="claude-code",
        into=("claude-code", USE),
        asks=CLAUDE,
        sees="shelf: .* ✔ Connected",
        gone="No MCP servers configured",
    ),
    Trial(
        client="claude-code",
        into=("claude-code",),
        asks=CLAUDE,
        sees="shelf: .* ✔ Connected",
        gone=ALONE,
        file=".claude.json",
        before=ONE_LINE,
    ),
    Trial(
        client="gemini-cli",
        into=("gemini-cli", USE),
        asks=GEMINI,
        sees="✓ shelf: .* Connected",
        gone="No MCP servers configured",
        beside=TRUSTED,
        patient=PATIENT,
    ),
    Trial(
        client="gemini-cli",
        into=("gemini-cli",),
        asks=GEMINI,
        sees="✓ shelf: .* Connected",
        gone=ALONE,
        file=".gemini/settings.json",
        # The client reads comments, but no trailing commas.
        before=COMMENTED.replace(", //", " //").replace("},\n}", "}\n}"),
        beside=TRUSTED,
        patient=PATIENT,
    ),
    Trial(
        client="opencode",
        into=("opencode",),
        asks=("opencode", "mcp", "list"),
        sees="✓ +shelf +connected",
        gone=r"other disabled[^✓✗]* 1 server\(s\)",
        file=".config/opencode/opencode.json",
        before=COMMENTED.replace("mcpServers", "mcp").replace(
            '{"command": "/bin/false"}', '{"type": "local", "command": ["/bin/false"], "enabled": false}'
        ),
    ),
    Trial(client="codex", into=("codex", USE), asks=CODEX, sees='"command": ".*/mcp-bridge"', gone=NONE),
    Trial(
        client="codex",
        into=("codex",),
        asks=CODEX,
        sees='"command": ".*/mcp-bridge"',
        gone=NONE,
        file=".codex/config.toml",
        before='# mine\nmodel = "x"\n\n[mcp_servers.other]   # not ours\ncommand = "/bin/false"\n',
    ),
    Trial(
        client="inspector",
        into=("claude-code", "--scope", "project"),
        asks=(*INSPECTOR, *CALL),
        sees='"text": "42"',
        gone="Config file not found",
    ),
)
