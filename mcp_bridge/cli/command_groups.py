"""The groups `export`, `module` and `approvals`. Each function imports its command late, as in app.py."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from mcp_bridge.cli.parameters import (
    DescriptionOption,
    EnvOption,
    FileArgument,
    IncludeOption,
    JsonOption,
    LogLevelOption,
    NeedsOption,
    OutputOption,
    ServerNameOption,
    VersionOption,
    WheelOption,
)
from mcp_bridge.contracts.errors import ConfigError

MODEL_FORMATS = {
    "openai": "OpenAI Chat Completions",
    "openai-responses": "OpenAI Responses",
    "anthropic": "Anthropic Messages",
    "gemini": "Gemini",
    "bedrock": "Amazon Bedrock Converse",
    "ollama": "Ollama",
}
"""The APIs of language models by the names of their formats, which `mcp_bridge.export`, imported late, has too."""

SettingsArgument = Annotated[
    Path | None,
    typer.Argument(help="The settings file. Default: mcp-bridge.yaml in the current folder.", show_default=False),
]


class FormatGroup(TyperGroup):
    """A group whose errors list the formats, and the formats that have an option."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of a format. Raises ConfigError for an unknown format or an option of other formats."""
        if args and args[0] not in self.commands:
            known = ", ".join(self.commands)
            raise ConfigError(f"unknown format '{args[0]}'", where="FORMAT", hint=f"Use one of: {known}")
        resolved = super().resolve_command(ctx, args)
        _check_options(args[0], args[1:], self.commands)
        return resolved


class DefaultAnswerGroup(TyperGroup):
    """A group whose command `answer` is the default."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse `approvals FILE` as `approvals answer FILE`."""
        if not args or (args[0] not in self.commands and args[0] not in {"--help", "-h"}):
            args = ["answer", *args]
        return super().parse_args(ctx, args)


def _check_options(name: str, args: list[str], commands: Mapping[str, Any]) -> None:
    """Reject options that only other formats have; options that no format has are left to the parser."""
    for word in args:
        if word == "--":
            return
        option = word.partition("=")[0]
        formats = [each for each, command in commands.items() if option.startswith("--") and _has(command, option)]
        if formats and name not in formats:
            hint = f"These formats have it: {', '.join(formats)}"
            raise ConfigError(f"'{name}' has no option {option}", where=option, hint=hint)


def _has(command: Any, option: str) -> bool:
    return any(option in (*parameter.opts, *parameter.secondary_opts) for parameter in command.params)


export = typer.Typer(
    name="export",
    cls=FormatGroup,
    help="Export tools or the whole server. Tools for language model APIs; the server as a bundle, image, "
    "registry entry, client file or links.",
    rich_markup_mode=None,
    no_args_is_help=True,
)


def _add_model_format(form: str, api: str) -> None:
    @export.command(form, help=f"Print the tools as JSON for the {api} API.")
    def export_model_tools(
        file: FileArgument = None,
        strict: Annotated[
            bool, typer.Option("--strict", help="Use OpenAI's strict mode for the tools that support it.")
        ] = False,
        only: Annotated[
            list[str] | None, typer.Option("--only", metavar="NAME", help="Export only this tool; repeatable.")
        ] = None,
        output: OutputOption = None,
        log_level: LogLevelOption = "critical",
    ) -> None:
        from mcp_bridge.cli.export import ToolExportOptions, export_tools
        from mcp_bridge.cli.logs import configure

        configure(log_level)
        export_tools(form, file, ToolExportOptions(strict=strict, only=only or (), output=output))


for _form, _api in MODEL_FORMATS.items():
    _add_model_format(_form, _api)


@export.command("mcpb")
def export_mcpb(
    file: FileArgument = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="PATH", help="Write to this file. Default: NAME.mcpb.", show_default=False
        ),
    ] = None,
    wheel: WheelOption = None,
    include: IncludeOption = None,
    needs: NeedsOption = None,
    env: EnvOption = None,
    package_version: VersionOption = None,
    description: DescriptionOption = None,
    author: Annotated[str | None, typer.Option(metavar="NAME", help="The author of the bundle.")] = None,
    licence: Annotated[str | None, typer.Option("--license", metavar="ID", help="The license, e.g. MIT.")] = None,
    log_level: LogLevelOption = "critical",
) -> None:
    """Write an MCP bundle. Claude Desktop installs it when you open it."""
    from mcp_bridge.cli.export import export_bundle
    from mcp_bridge.cli.logs import configure
    from mcp_bridge.packaging.manifest import Description
    from mcp_bridge.packaging.project import Additions

    configure(log_level)
    additions = Additions(include=include or (), requirements=needs or (), variables=env or ())
    details = Description(version=package_version, text=description, author=author, licence=licence)
    export_bundle(file, additions, details, wheel, output)


@export.command("server-json")
def export_server_json(
    namespace: Annotated[
        str, typer.Option(metavar="NAMESPACE", help="Your namespace in the registry, e.g. io.github.NAME.")
    ],
    file: FileArgument = None,
    output: OutputOption = None,
    package: Annotated[
        str | None, typer.Option(metavar="NAME", help="Your package on PyPI that runs the server.", show_default=False)
    ] = None,
    package_version: VersionOption = None,
    bundle: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Use this bundle, made by `export mcpb`, instead.", show_default=False),
    ] = None,
    bundle_url: Annotated[
        str | None, typer.Option(metavar="URL", help="The URL that the bundle will have.", show_default=False)
    ] = None,
    env: EnvOption = None,
    description: DescriptionOption = None,
) -> None:
    """Print a server.json entry for the MCP registry."""
    from mcp_bridge.cli.export import export_registry_entry
    from mcp_bridge.packaging.manifest import Description
    from mcp_bridge.packaging.project import Additions
    from mcp_bridge.packaging.server_json import choose_publication

    publication = choose_publication(package, package_version, bundle, bundle_url)
    additions = Additions(variables=env or ())
    export_registry_entry(file, additions, namespace, publication, Description(text=description), output)


@export.command("mcp-json")
def export_mcp_json(
    file: FileArgument = None,
    output: OutputOption = None,
    client: Annotated[
        str, typer.Option(metavar="CLIENT", help="A client that `mcp-bridge clients` lists, or inspector.")
    ] = "claude-code",
    name: ServerNameOption = None,
) -> None:
    """Print a client's settings file with this server."""
    from mcp_bridge.cli.export import export_client_file

    export_client_file(file, client, name, output)


@export.command("links")
def export_links(file: FileArgument = None, output: OutputOption = None, name: ServerNameOption = None) -> None:
    """Print links that install this server in clients."""
    from mcp_bridge.cli.export import export_install_links

    export_install_links(file, name, output)


@export.command("dockerfile")
def export_dockerfile(
    file: FileArgument = None,
    output: OutputOption = None,
    http: Annotated[bool, typer.Option("--http", help="Serve over HTTP on port 8808 instead of stdio.")] = False,
    wheel: WheelOption = None,
    include: IncludeOption = None,
    needs: NeedsOption = None,
    env: EnvOption = None,
) -> None:
    """Print a Dockerfile. Build it in the folder of the settings."""
    from mcp_bridge.cli.export import export_image
    from mcp_bridge.packaging.project import Additions

    additions = Additions(include=include or (), requirements=needs or (), variables=env or ())
    export_image(file, additions, wheel, output, http=http)


module = typer.Typer(
    name="module",
    help="Check Amplifier modules, and lock the ones that come from git.",
    rich_markup_mode=None,
    no_args_is_help=True,
)


class ModuleType(StrEnum):
    """The types of Amplifier modules."""

    TOOL = "tool"
    HOOK = "hook"
    PROVIDER = "provider"
    ORCHESTRATOR = "orchestrator"
    CONTEXT = "context"


@module.command("validate")
def validate_module(
    module: Annotated[str, typer.Argument(help="A module: its folder, its file, or the name of an installed one.")],
    module_type: Annotated[
        ModuleType | None, typer.Option("--type", help="The type to check. Default: the type that it declares.")
    ] = None,
    config: Annotated[str, typer.Option(metavar="JSON", help="The configuration to mount the module with.")] = "{}",
    as_json: JsonOption = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="The timeout of each step.")] = 10.0,
) -> None:
    """Check a module. Exits with 1 if it does not meet a requirement of its type."""
    from mcp_bridge.cli.module import ModuleOptions, check_module

    given_type = module_type.value if module_type is not None else None
    check_module(module, ModuleOptions(type=given_type, config=config, as_json=as_json, timeout=timeout))


@module.command("lock")
def lock_modules(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="A settings file or a mount plan. Default: mcp-bridge.yaml in the current folder.", show_default=False
        ),
    ] = None,
    update: Annotated[bool, typer.Option("--update", help="Also update modules that are already locked.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Fetch and lock the modules that come from git."""
    from mcp_bridge.cli.module_lock import lock_file_modules

    lock_file_modules(file, update=update, as_json=as_json)


approvals = typer.Typer(
    name="approvals",
    cls=DefaultAnswerGroup,
    help="Approve or deny tool calls of running bridges. Also lists and revokes lasting approvals.",
    rich_markup_mode=None,
)


@approvals.command("answer")
def answer_requests(file: SettingsArgument = None) -> None:
    """Approve or deny tool calls in this terminal. This is the default command."""
    from mcp_bridge.cli.approvals import answer_bridges

    answer_bridges(file)


@approvals.command("list")
def list_grants(file: SettingsArgument = None, as_json: JsonOption = False) -> None:
    """List the approvals for a session or for always."""
    from mcp_bridge.cli.approvals import show_grants

    show_grants(file, as_json=as_json)


@approvals.command("revoke")
def revoke_grant(
    id: Annotated[
        str | None, typer.Argument(help="The id of an approval, or the start of it.", show_default=False)
    ] = None,
    file: SettingsArgument = None,
    revoke_all: Annotated[bool, typer.Option("--all", help="Revoke every approval.")] = False,
) -> None:
    """Revoke an approval. Such calls then need approval again."""
    from mcp_bridge.cli.approvals import revoke_grants

    revoke_grants(id, file, revoke_all=revoke_all)
