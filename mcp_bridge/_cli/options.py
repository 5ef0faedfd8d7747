"""The options of the commands for running, calling and checking servers.

Each field is an argument or an option, and the docstring of the class is the help of the command.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from mcp_bridge._cli.parameters import Argument, Option
from mcp_bridge._cli.serve_options import FileArgument, LogFileOption, LogLevelOption
from mcp_bridge._contracts.errors import ConfigError

MAX_TIMEOUT = 3600
"""The maximum value of `--timeout`, in seconds."""


def complete_clients(incomplete: str) -> list[str]:
    """List the clients for an incomplete name, for the completion of shells."""
    from mcp_bridge._desktop.table import CLIENTS as table

    return [name for name in table if name.startswith(incomplete)]


JsonOption = Annotated[bool, Option("--json", help="Print the result as JSON on stdout.")]

SETTINGS_HELP = "The settings file. Default: mcp-bridge.yaml in the current folder."

SettingsArgument = Annotated[Path | None, Argument(help=SETTINGS_HELP)]


_TARGET_HELP = (
    "A Python file, a folder of Python files, a settings file, or the URL of any MCP server. "
    "Default: mcp-bridge.yaml or tools.py in the current folder."
)
_COMMAND_HELP = "The command that starts an MCP server, instead of a file. Or put the command at the end, after --."
_HEADER_HELP = (
    "Send this header to a URL; repeatable. Its value is read from the environment variable VAR. Also file:/PATH or "
    "keyring:SERVICE/NAME, and 'Bearer env:VAR'."
)
CommandOption = Annotated[str | None, Option(metavar="COMMAND", help=_COMMAND_HELP)]
HeaderOption = Annotated[list[str] | None, Option(metavar="NAME=env:VAR", help=_HEADER_HELP)]
TokenOption = Annotated[
    str | None, Option(metavar="NAME", help="Send the value of this environment variable to a URL as a bearer token.")
]
TargetOption = Annotated[
    str | None, Option("--file", "-f", metavar="TARGET", help="The target, instead of the first argument.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressOptions:
    """The options for the address of another server, in addition to its URL."""

    command: CommandOption = None
    token_env: TokenOption = None
    header: HeaderOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions(AddressOptions):
    """List the tools, resources and prompts of a file, or of any MCP server."""

    target: Annotated[str | None, Argument(metavar="TARGET", help=_TARGET_HELP)] = None
    as_json: JsonOption = False
    tag: Annotated[list[str] | None, Option(metavar="TAG", help="List only tools with this tag; repeatable.")] = None
    all_tags: Annotated[bool, Option("--all-tags", help="List only tools that have every --tag.")] = False
    quiet: Annotated[bool, Option("--quiet", "-q", help="Print only the names of the tools, one on each line.")] = False
    # Problems are reported at every level.
    log_level: LogLevelOption = "critical"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions(AddressOptions):
    """The options of a request to a file, or to any MCP server."""

    file: TargetOption = None
    as_json: JsonOption = False
    log_level: LogLevelOption = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions(RequestOptions):
    """Call one tool of a file, or of any MCP server, and print its result."""

    words: Annotated[
        list[str],
        Argument(
            metavar="[TARGET] TOOL [KEY=VALUE]...",
            help=f"TARGET: {_TARGET_HELP}\nTOOL: The name of the tool.\nKEY=VALUE: An argument; "
            "KEY:=JSON for any JSON value. Or one JSON object with all arguments.",
        ),
    ]
    arguments: Annotated[str | None, Option(metavar="JSON", help="A JSON object of arguments; - reads stdin.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions(RequestOptions):
    """Read a resource of a file, or of any MCP server, and print its contents."""

    words: Annotated[
        list[str], Argument(metavar="[TARGET] URI", help=f"TARGET: {_TARGET_HELP}\nURI: The URI of the resource.")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class GetOptions(RequestOptions):
    """Get a prompt of a file, or of any MCP server, and print its messages."""

    words: Annotated[
        list[str],
        Argument(
            metavar="[TARGET] PROMPT [NAME=VALUE]...",
            help=f"TARGET: {_TARGET_HELP}\nPROMPT: The name of the prompt.\nNAME=VALUE: An argument of the prompt.",
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class InitOptions:
    """Create a project. Writes settings, tools, a test and a Makefile. Existing files are not overwritten."""

    folder: Annotated[Path, Argument(metavar="DIR", help="The folder, created if it does not exist.")] = Path()


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateOptions:
    """Check settings and sources without serving them, and what clients would reject. Exits with 1 for a problem."""

    file: FileArgument = None
    client: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Also check what a client such as claude-code would reject. `all` checks every client, without notes.",
        ),
    ] = None
    server_name: Annotated[
        str | None,
        Option(metavar="NAME", help="The name of the server in the client. Default: as chosen by `install`."),
    ] = None
    as_json: JsonOption = False
    log_level: LogLevelOption = "critical"


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions(AddressOptions):
    """Diagnose a server. Starts it as an MCP client would, and explains the cause of each failure."""

    target: Annotated[
        str | None,
        Argument(
            metavar="TARGET",
            autocompletion=complete_clients,
            help="A client, `all` for every client, a file to serve, or the URL of any MCP server. Default: "
            "mcp-bridge.yaml or tools.py in the current folder.",
        ),
    ] = None
    scope: Annotated[str | None, Option(metavar="user|project|local", help="Check only this file of the client.")] = (
        None
    )
    name: Annotated[str | None, Option(metavar="NAME", help="Check the server with this name in the client.")] = None
    call: Annotated[str | None, Option(metavar="TOOL[=JSON]", help="Call this tool even if it has effects.")] = None
    as_json: JsonOption = False
    timeout: Annotated[
        float | None,
        Option(
            metavar="SECONDS",
            help="How long to wait for each response. Default: 20, or for a client twice its own timeout, at most 60.",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaOptions:
    """Print the JSON Schema of the settings file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionOptions:
    """Print the script that completes commands, tools and their arguments in a shell."""

    shell: Annotated[Literal["bash", "zsh", "fish", "powershell"], Argument(help="bash, zsh, fish or powershell.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleOptions:
    """Check a module. Exits with 1 if it does not meet a requirement of its type."""

    module: Annotated[str, Argument(help="A module: its folder, its file, or the name of an installed one.")]
    type: Annotated[
        Literal["tool", "hook", "provider", "orchestrator", "context"] | None,
        Option(metavar="TYPE", help="tool, hook, provider, orchestrator or context. Default: the type it declares."),
    ] = None
    config: Annotated[str, Option(metavar="JSON", help="The configuration to mount the module with.")] = "{}"
    as_json: JsonOption = False
    timeout: Annotated[float, Option(metavar="SECONDS", help="How long one call of the module's code may take.")] = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOptions:
    """Fetch and lock the modules that come from git. Locked modules stay at their commit."""

    file: Annotated[
        Path | None, Argument(help="A settings file or a mount plan. Default: mcp-bridge.yaml in the current folder.")
    ] = None
    update: Annotated[bool, Option("--update", help="Also update modules that are already locked.")] = False
    as_json: JsonOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Run the tasks that servers with the same settings create in Redis, on this or another machine."""

    file: SettingsArgument = None
    concurrency: Annotated[
        int | None, Option(metavar="N", min=1, help="How many tasks run at once. Default: `tasks.concurrency`.")
    ] = None
    log_level: LogLevelOption = "warning"
    log_file: LogFileOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustOptions:
    """Show how tools of upstreams have changed, and accept them. Exits with 1 if a change is not accepted."""

    file: SettingsArgument = None
    tool: Annotated[
        list[str] | None,
        Option(metavar="NAME", help="Only this tool, as TOOL or SERVER/TOOL, with the wildcards * and ?; repeatable."),
    ] = None
    yes: Annotated[bool, Option("--yes", "-y", help="Accept without asking.")] = False
    as_json: JsonOption = False
    # Problems are reported at every level.
    log_level: LogLevelOption = "critical"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginOptions:
    """Sign in to a server in the browser, for settings with `auth: oauth` and for commands with its URL."""

    server: Annotated[str, Argument(metavar="URL|NAME", help="The URL of the server, or its name in the settings.")]
    file: SettingsArgument = None
    keyring: Annotated[
        bool,
        Option(
            "--keyring/--no-keyring",
            help="Store the tokens in the system's keyring if it has one, or always in a file.",
        ),
    ] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedOptions:
    """List or stop the servers that clients share (`serve --shared`)."""

    file: Annotated[Path | None, Argument(help="The file that is served. Default: all shared servers.")] = None
    stop: Annotated[
        bool,
        Option(
            "--stop", help="Stop them. Running calls may finish, and clients start a new server when they need one."
        ),
    ] = False
    as_json: JsonOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOptions:
    """Approve or deny tool calls in this terminal. This is the default command."""

    file: SettingsArgument = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantListOptions:
    """List the remembered approvals."""

    file: SettingsArgument = None
    quiet: Annotated[bool, Option("--quiet", "-q", help="Print only the ids, one on each line.")] = False
    as_json: JsonOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeOptions:
    """Revoke a remembered approval. Such calls then need approval again."""

    id: Annotated[str | None, Argument(help="The id of an approval, or the beginning of its id.")] = None
    file: SettingsArgument = None
    revoke_all: Annotated[bool, Option("--all", help="Revoke every approval.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DevOptions:
    """Serve a file with a web page to try its tools, and reload it when it changes. Opens the page in the browser."""

    file: FileArgument = None
    port: Annotated[
        int | None,
        Option(metavar="PORT", min=0, max=65535, help="The port. Default: 8808, or a free one if 8808 is in use."),
    ] = None
    open: Annotated[bool, Option("--open/--no-open", help="Open the page in the browser.")] = True
    log_level: LogLevelOption = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopOptions:
    """Show the calls of a running server, live. Press q or Ctrl-C to stop. In a pipe, prints a line for each call."""

    target: Annotated[
        str | None,
        Argument(
            metavar="URL|FILE",
            help="The URL of a server with a page, or its settings file. For `dev`, the address that it prints. "
            "Default: mcp-bridge.yaml or tools.py in the current folder.",
        ),
    ] = None
    token_env: TokenOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions:
    """Show which layers a tool call would pass and what it would run, without running the tool or asking anyone."""

    words: Annotated[
        list[str],
        Argument(
            metavar="[FILE] TOOL [KEY=VALUE]...",
            help=f"FILE: {SETTINGS_HELP}\nTOOL: The name of the tool.\nKEY=VALUE: An argument; KEY:=JSON for any JSON "
            "value. Without arguments, they are not validated, and no steps of a chain or command are shown.",
        ),
    ]
    file: TargetOption = None
    arguments: Annotated[str | None, Option(metavar="JSON", help="A JSON object of arguments; - reads stdin.")] = None
    principal: Annotated[str | None, Option(metavar="NAME", help="The principal of the caller. Default: none.")] = None
    as_json: JsonOption = False
    log_level: LogLevelOption = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailOptions:
    """Read, filter and verify an audit trail. With --verify, the exit code is 1 if it was changed."""

    file: Annotated[
        Path | None,
        Argument(
            help="The file of an audit trail, or a settings file with the policy `audit`. Default: mcp-bridge.yaml in "
            "the current folder."
        ),
    ] = None
    tool: Annotated[
        str | None,
        Option(metavar="PATTERN", help="Only calls with this name or URI, with the wildcards * and ?."),
    ] = None
    principal: Annotated[str | None, Option(metavar="NAME", help="Only the calls of this principal.")] = None
    outcome: Annotated[
        str | None, Option(metavar="OUTCOME", help="Only ok, error, denied, cancelled, or started (see `starts`).")
    ] = None
    since: Annotated[
        str | None,
        Option(
            metavar="TIME",
            help="Only calls that began after this time: a duration before now such as 30m or 7d, or a time such as "
            "2026-11-26 or 2026-11-26T13:30, which is local unless it has an offset such as +02:00.",
        ),
    ] = None
    until: Annotated[str | None, Option(metavar="TIME", help="Only calls that began before this time.")] = None
    text: Annotated[str | None, Option(metavar="TEXT", help="Only records that contain this text.")] = None
    limit: Annotated[
        int, Option("--limit", "-n", metavar="N", min=0, help="How many of the latest records to print; 0 for all.")
    ] = 100
    follow: Annotated[bool, Option("--follow", "-f", help="Also print new records, until Ctrl-C.")] = False
    verify: Annotated[bool, Option("--verify", help="Check the chain, and name the first broken record.")] = False
    contains: Annotated[
        str | None,
        Option(metavar="HASH", help="Verify, and check that a record still has this hash, which you noted earlier."),
    ] = None
    as_json: Annotated[bool, Option("--json", help="Print each record as a line of JSON on stdout.")] = False


def check_timeout(seconds: float) -> None:
    """Check the value of --timeout. Raises ConfigError."""
    # Written so, the condition also rejects NaN.
    if not 0 < seconds <= MAX_TIMEOUT:
        hint = f"Use a number of seconds greater than 0 and at most {MAX_TIMEOUT}"
        raise ConfigError(f"found {seconds:g}", where="--timeout", hint=hint)
