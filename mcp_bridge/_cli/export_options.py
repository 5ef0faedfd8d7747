"""Options of `export` in all its formats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from mcp_bridge._cli.options import ServerNameOption
from mcp_bridge._cli.parameters import Option
from mcp_bridge._cli.serve_options import FileArgument, LogLevelOption

MODEL_FORMATS: Mapping[str, str] = {
    "openai": "OpenAI Chat Completions",
    "openai-responses": "OpenAI Responses",
    "anthropic": "Anthropic Messages",
    "gemini": "Gemini",
    "bedrock": "Amazon Bedrock Converse",
    "ollama": "Ollama",
}
"""The APIs of language models by the names of their formats, which `mcp_bridge.export`, imported late, has too."""
OutputOption = Annotated[
    Path | None, Option("--output", "-o", metavar="PATH", help="Write to this file instead of stdout.")
]
WheelOption = Annotated[
    Path | None,
    Option(metavar="FILE", help="Install mcp-bridge from this wheel. Default: a wheel of the version that is running."),
]
FromIndexOption = Annotated[
    bool, Option("--from-index", help="Install mcp-bridge from a package index, without adding a wheel.")
]
IncludeOption = Annotated[
    list[str] | None, Option(metavar="PATTERN", help="Also include these files, e.g. 'data/*.json'; repeatable.")
]
NeedsOption = Annotated[
    list[str] | None,
    Option(metavar="PACKAGE", help="Also install this package, besides those in requirements.txt; repeatable."),
]
EnvOption = Annotated[
    list[str] | None,
    Option(metavar="NAME", help="Also declare this variable, besides those in the settings; repeatable."),
]
VersionOption = Annotated[str | None, Option(metavar="VERSION", help="The version of the package.")]
DescriptionOption = Annotated[str | None, Option(metavar="TEXT", help="A description in one line.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExportOptions:
    """Print the tools as JSON for the {api} API."""

    file: FileArgument = None
    strict: Annotated[bool, Option("--strict", help="Use OpenAI's strict mode for the tools that support it.")] = False
    only: Annotated[list[str] | None, Option(metavar="NAME", help="Export only this tool; repeatable.")] = None
    output: OutputOption = None
    log_level: LogLevelOption = "critical"


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleOptions:
    """Write an MCP bundle. Claude Desktop installs it when you open it."""

    file: FileArgument = None
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="PATH", help="Write to this file. Default: NAME.mcpb.")
    ] = None
    wheel: WheelOption = None
    from_index: FromIndexOption = False
    include: IncludeOption = None
    needs: NeedsOption = None
    env: EnvOption = None
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
    """Print a client's settings file with this server."""

    file: FileArgument = None
    output: OutputOption = None
    client: Annotated[str, Option(metavar="CLIENT", help="A client of `mcp-bridge clients`, or inspector.")] = (
        "claude-code"
    )
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
    http: Annotated[bool, Option("--http", help="Serve over HTTP on port 8808 instead of stdio.")] = False
    wheel: WheelOption = None
    from_index: FromIndexOption = False
    include: IncludeOption = None
    needs: NeedsOption = None
    env: EnvOption = None
