"""The options of the commands in the groups `export`, `module` and `approvals`, as in options.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from mcp_bridge.cli.options import FileArgument, JsonOption, LogLevelOption, ServerNameOption

MODEL_FORMATS: Mapping[str, str] = {
    "openai": "OpenAI Chat Completions",
    "openai-responses": "OpenAI Responses",
    "anthropic": "Anthropic Messages",
    "gemini": "Gemini",
    "bedrock": "Amazon Bedrock Converse",
    "ollama": "Ollama",
}
"""The APIs of language models by the names of their formats, which `mcp_bridge.export`, imported late, has too."""
SETTINGS_HELP = "The settings file. Default: mcp-bridge.yaml in the current folder."

SettingsArgument = Annotated[Path | None, typer.Argument(help=SETTINGS_HELP, show_default=False)]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="PATH", help="Write to this file instead of stdout.")
]
WheelOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Install mcp-bridge from this wheel instead of a package index.")
]
IncludeOption = Annotated[
    list[str] | None, typer.Option(metavar="PATTERN", help="Also include these files, e.g. 'data/*.json'; repeatable.")
]
NeedsOption = Annotated[
    list[str] | None,
    typer.Option(metavar="PACKAGE", help="Also install this package, besides those in requirements.txt; repeatable."),
]
EnvOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Also declare this variable, besides those in the settings; repeatable."),
]
VersionOption = Annotated[str | None, typer.Option(metavar="VERSION", help="The version of the package.")]
DescriptionOption = Annotated[str | None, typer.Option(metavar="TEXT", help="A description in one line.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExportOptions:
    """Print the tools as JSON for the {api} API."""

    file: FileArgument = None
    strict: Annotated[
        bool, typer.Option("--strict", help="Use OpenAI's strict mode for the tools that support it.")
    ] = False
    only: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Export only this tool; repeatable.")] = None
    output: OutputOption = None
    log_level: LogLevelOption = "critical"


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleOptions:
    """Write an MCP bundle. Claude Desktop installs it when you open it."""

    file: FileArgument = None
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="PATH", help="Write to this file. Default: NAME.mcpb.")
    ] = None
    wheel: WheelOption = None
    include: IncludeOption = None
    needs: NeedsOption = None
    env: EnvOption = None
    package_version: VersionOption = None
    description: DescriptionOption = None
    author: Annotated[str | None, typer.Option(metavar="NAME", help="The author of the bundle.")] = None
    license: Annotated[str | None, typer.Option(metavar="ID", help="The license, e.g. MIT.")] = None
    log_level: LogLevelOption = "critical"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryEntryOptions:
    """Print a server.json entry for the MCP registry."""

    namespace: Annotated[
        str, typer.Option(metavar="NAMESPACE", help="Your namespace in the registry, e.g. io.github.NAME.")
    ]
    file: FileArgument = None
    output: OutputOption = None
    package: Annotated[str | None, typer.Option(metavar="NAME", help="Your package on PyPI that runs the server.")] = (
        None
    )
    package_version: VersionOption = None
    bundle: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A bundle made by `export mcpb`, instead of a package.")
    ] = None
    bundle_url: Annotated[
        str | None, typer.Option(metavar="URL", help="The URL at which you will publish the bundle.")
    ] = None
    env: EnvOption = None
    description: DescriptionOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFileOptions:
    """Print a client's settings file with this server."""

    file: FileArgument = None
    output: OutputOption = None
    client: Annotated[
        str, typer.Option(metavar="CLIENT", help="A client that `mcp-bridge clients` lists, or inspector.")
    ] = "claude-code"
    name: ServerNameOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkOptions:
    """Print links that install this server in clients."""

    file: FileArgument = None
    output: OutputOption = None
    name: ServerNameOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerfileOptions:
    """Print a Dockerfile. Build it in the folder of the settings."""

    file: FileArgument = None
    output: OutputOption = None
    http: Annotated[bool, typer.Option("--http", help="Serve over HTTP on port 8808 instead of stdio.")] = False
    wheel: WheelOption = None
    include: IncludeOption = None
    needs: NeedsOption = None
    env: EnvOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleOptions:
    """Check a module. Exits with 1 if it does not meet a requirement of its type."""

    module: Annotated[str, typer.Argument(help="A module: its folder, its file, or the name of an installed one.")]
    type: Annotated[
        Literal["tool", "hook", "provider", "orchestrator", "context"] | None,
        typer.Option(help="The type of the module. Default: the type that it declares."),
    ] = None
    config: Annotated[str, typer.Option(metavar="JSON", help="The configuration to mount the module with.")] = "{}"
    as_json: JsonOption = False
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long one call of the module's code may take.")
    ] = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOptions:
    """Fetch and lock the modules that come from git. Locked modules stay at their commit."""

    file: Annotated[
        Path | None,
        typer.Argument(
            help="A settings file or a mount plan. Default: mcp-bridge.yaml in the current folder.", show_default=False
        ),
    ] = None
    update: Annotated[bool, typer.Option("--update", help="Also update modules that are already locked.")] = False
    as_json: JsonOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOptions:
    """Approve or deny tool calls in this terminal. This is the default command."""

    file: SettingsArgument = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantListOptions:
    """List the remembered approvals."""

    file: SettingsArgument = None
    as_json: JsonOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeOptions:
    """Revoke a remembered approval. Such calls then need approval again."""

    id: Annotated[
        str | None, typer.Argument(help="The id of an approval, or the beginning of its id.", show_default=False)
    ] = None
    file: SettingsArgument = None
    revoke_all: Annotated[bool, typer.Option("--all", help="Revoke every approval.")] = False
