"""The options of the commands about the files of clients, and of `import` and `export`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from mcp_bridge._cli.options import JsonOption, complete_clients
from mcp_bridge._cli.parameters import Argument, Option
from mcp_bridge._cli.serve_options import FILE_HELP, FileArgument, LogLevelOption

CLIENTS = (
    "claude-desktop, claude-code, vscode, visual-studio, cursor, windsurf, kiro, antigravity, zed, junie, codex, "
    "gemini-cli, qwen-code, goose, opencode, copilot-cli, amp, crush, lm-studio, warp, librechat, cline, roo-code, "
    "kilo-code or continue."
)
SCOPE_HELP = (
    "Which of the client's files to change: yours (user), the one that the project shares (project), or yours for this "
    "project (local, Claude Code only). Default: user."
)
COMMAND_HELP = "Use the client's own command instead of editing its file. Some commands reformat the file."


ClientArgument = Annotated[str, Argument(help=CLIENTS, autocompletion=complete_clients)]
ScopeOption = Annotated[str | None, Option("--scope", "-s", metavar="user|project|local", help=SCOPE_HELP)]
DryRunOption = Annotated[bool, Option("--dry-run", help="Show the changes without making them.")]
UseCommandOption = Annotated[bool, Option("--use-client-command", help=COMMAND_HELP)]
ServerNameOption = Annotated[
    str | None,
    Option(
        "--name",
        "-n",
        metavar="NAME",
        help="The server's name in the client. Default: `name` in the settings, else the name of the file or folder.",
    ),
]
ForceOption = Annotated[bool, Option("--force", help="Replace the file if it exists.")]
OutputOption = Annotated[
    Path | None, Option("--output", "-o", metavar="PATH", help="Write to this file instead of stdout.")
]
EnvOption = Annotated[
    list[str] | None,
    Option(metavar="NAME", help="Also declare this variable, besides those in the settings; repeatable."),
]
VersionOption = Annotated[str | None, Option(metavar="VERSION", help="The version of the package.")]
DescriptionOption = Annotated[str | None, Option(metavar="TEXT", help="A description in one line.")]
MODEL_APIS = "openai, openai-responses, anthropic, gemini, bedrock, ollama"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallOptions:
    """Add this server to an MCP client. Everything else in the client's settings stays unchanged.

    Without a client, it lists the clients on this machine, their settings files, and the bridges installed in them.
    """

    client: Annotated[
        str | None, Argument(help=f"{CLIENTS} Default: list the clients.", autocompletion=complete_clients)
    ] = None
    file: Annotated[
        str | None, Argument(metavar="FILE|URL", help=f"{FILE_HELP} Or the URL of a server that is already running.")
    ] = None
    scope: ScopeOption = None
    name: ServerNameOption = None
    env: Annotated[
        list[str] | None,
        Option(
            "--env",
            "-e",
            metavar="NAME[=VALUE]",
            help="Pass this variable to the server: NAME writes a reference, NAME=VALUE the value; repeatable.",
        ),
    ] = None
    token_env: Annotated[
        str | None,
        Option(metavar="NAME", help="The variable with the bearer token for a URL. Only a reference is written."),
    ] = None
    shared: Annotated[
        bool, Option("--shared", help="Share one server with the other clients that use this option.")
    ] = False
    dry_run: DryRunOption = False
    only_print: Annotated[
        bool, Option("--print", help="Print the entry and the file it belongs in, without changing anything.")
    ] = False
    link: Annotated[bool, Option("--link", help="Print a link that installs the server when opened.")] = False
    force: Annotated[
        bool, Option("--force", help="Replace another server that has the same name; `uninstall` restores it.")
    ] = False
    use_client_command: UseCommandOption = False
    check: Annotated[
        bool, Option("--check/--no-check", help="Start the server once, and install it only if it works.")
    ] = True
    as_json: JsonOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UninstallOptions:
    """Remove this server from an MCP client. Everything else in the client's settings stays unchanged."""

    client: ClientArgument
    name: Annotated[str | None, Argument(help="The name of the server. Default: the one that `install` added.")] = None
    scope: ScopeOption = None
    all_servers: Annotated[bool, Option("--all", help="Remove every server that `install` added.")] = False
    dry_run: DryRunOption = False
    force: Annotated[bool, Option("--force", help="Remove the server even if it is not a bridge.")] = False
    use_client_command: UseCommandOption = False
    as_json: JsonOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Write a settings file with the servers of your MCP clients. Secrets are not copied."""

    sources: Annotated[
        list[str] | None,
        Option("--from", metavar="CLIENT|FILE", help="Take servers only from this client or file. Repeatable."),
    ] = None
    out: Annotated[Path, Option("--out", "-o", metavar="FILE", help="The file to write; `-` prints it.")] = Path(
        "mcp-bridge.yaml"
    )
    force: ForceOption = False
    as_json: JsonOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenApiImportOptions:
    """Store the OpenAPI document of an HTTP API as one file, for a source of type openapi."""

    source: Annotated[str, Argument(metavar="URL|FILE", help="The document, 3.0 or 3.1, as JSON or YAML.")]
    out: Annotated[
        Path | None,
        Option(
            "--out", "-o", metavar="FILE", help="The file to write. Default: a name made from the title of the API."
        ),
    ] = None
    force: Annotated[bool, Option("--force", help="Replace the file if it exists, and list what has changed.")] = False
    allow: Annotated[
        list[str] | None,
        Option(
            metavar="ADDRESS",
            help="Also fetch from this network, `loopback` or `private`, and without encryption there. Repeatable.",
        ),
    ] = None
    as_json: JsonOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportCommandOptions:
    """Draft settings that turn a program into a tool. Runs the program to read its help, so you have to trust it."""

    words: Annotated[
        list[str],
        Argument(
            metavar="COMMAND...",
            help="The program and its subcommand, such as 'git log' or 'python -m pip install', quoted or not.",
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExportOptions:
    """Print the tools as JSON for the API of a language model."""

    api: Annotated[str, Argument(metavar="API", help=f"The API: {MODEL_APIS}.")]
    file: FileArgument = None
    strict: Annotated[bool, Option("--strict", help="Use OpenAI's strict mode for the tools that support it.")] = False
    only: Annotated[list[str] | None, Option(metavar="NAME", help="Export only this tool; repeatable.")] = None
    output: OutputOption = None
    log_level: LogLevelOption = "critical"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageOptions:
    """The options of packages of a server with its files and requirements."""

    file: FileArgument = None
    output: OutputOption = None
    wheel: Annotated[
        Path | None,
        Option(
            metavar="FILE", help="Install mcp-bridge from this wheel. Default: a wheel of the version that is running."
        ),
    ] = None
    from_index: Annotated[
        bool, Option("--from-index", help="Install mcp-bridge from a package index, without adding a wheel.")
    ] = False
    include: Annotated[
        list[str] | None, Option(metavar="PATTERN", help="Also include these files, e.g. 'data/*.json'; repeatable.")
    ] = None
    needs: Annotated[
        list[str] | None,
        Option(metavar="PACKAGE", help="Also install this package, besides those in requirements.txt; repeatable."),
    ] = None
    env: EnvOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleOptions(PackageOptions):
    """Write an MCP bundle. Claude Desktop installs it when you open it."""

    output: Annotated[
        Path | None, Option("--output", "-o", metavar="PATH", help="Write to this file. Default: NAME.mcpb.")
    ] = None
    package_version: VersionOption = None
    description: DescriptionOption = None
    author: Annotated[str | None, Option(metavar="NAME", help="The author of the bundle.")] = None
    license: Annotated[str | None, Option(metavar="ID", help="The license, e.g. MIT.")] = None
    log_level: LogLevelOption = "critical"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryEntryOptions:
    """Print a server.json entry for the MCP registry."""

    namespace: Annotated[str, Option(metavar="NAMESPACE", help="Your namespace in the registry, e.g. io.github.NAME.")]
    file: FileArgument = None
    output: OutputOption = None
    package: Annotated[str | None, Option(metavar="NAME", help="Your package on PyPI that runs the server.")] = None
    package_version: VersionOption = None
    bundle: Annotated[Path | None, Option(metavar="FILE", help="Publish this bundle of `export mcpb`.")] = None
    bundle_url: Annotated[str | None, Option(metavar="URL", help="The URL at which you will publish the bundle.")] = (
        None
    )
    env: EnvOption = None
    description: DescriptionOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFileOptions:
    """Print a client's settings file with this server, or links that install it."""

    file: FileArgument = None
    output: OutputOption = None
    client: Annotated[str, Option(metavar="CLIENT", help="A client of `mcp-bridge install`, or inspector.")] = (
        "claude-code"
    )
    name: ServerNameOption = None
    links: Annotated[bool, Option("--links", help="Print the links that install the server in clients.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerfileOptions(PackageOptions):
    """Print a Dockerfile. Build it in the folder of the settings."""

    http: Annotated[bool, Option("--http", help="Serve over HTTP on port 8808 instead of stdio.")] = False
