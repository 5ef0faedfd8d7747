"""`mcp-bridge export`: one command for each form. Each body imports what it needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from mcp_bridge.contracts.errors import ConfigError

FORMATS = ("openai", "openai-responses", "anthropic", "gemini", "bedrock", "ollama")
"""The formats of language models; `mcp_bridge.export` has them too, which is not imported to list them."""

WHAT = "A Python file, a folder of them, or settings. Default: mcp-bridge.yaml or tools.py here."
File = Annotated[Path | None, typer.Argument(help=WHAT, show_default=False)]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="PATH", help="Write to this file.", show_default=False)
]
Level = Annotated[str, typer.Option("--log-level", help="debug, info, warning, error or critical.")]
Wheel = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Take the bridge from this wheel instead of an index.", show_default=False),
]
Include = Annotated[
    list[str] | None,
    typer.Option("--include", metavar="PATTERN", help="Take these files along too, such as 'data/*.json'."),
]
NeedsOption = Annotated[
    list[str] | None,
    typer.Option("--needs", metavar="PACKAGE", help="A package that tools import, besides requirements.txt."),
]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="NAME", help="A variable that tools read, besides those in the settings."),
]
Version = Annotated[str | None, typer.Option(metavar="VERSION", help="The version of the package.")]
Text = Annotated[str | None, typer.Option("--description", metavar="TEXT", help="What it is for, in one line.")]
ServerName = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="The server's name there; default: that of the settings.")
]


class Formats(TyperGroup):
    """A group that says which formats there are, and which of them know an option."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of a format. Raises ConfigError for one that is not there, or does not know an option."""
        if args and args[0] not in self.commands:
            known = ", ".join(self.commands)
            raise ConfigError(f"'{args[0]}' cannot be exported", where="FORMAT", hint=f"Name one of: {known}")
        found = super().resolve_command(ctx, args)
        _check_options(args[0], args[1:], self.commands)
        return found


def _check_options(name: str, args: list[str], commands: Mapping[str, Any]) -> None:
    """An option of other formats alone is told with their names; one of nobody is left to the parser."""
    for word in args:
        if word == "--":
            return
        option = word.partition("=")[0]
        having = [each for each, command in commands.items() if option.startswith("--") and _knows(command, option)]
        if having and name not in having:
            raise ConfigError(f"'{name}' has no {option}", where=option, hint=f"These have: {', '.join(having)}")


def _knows(command: Any, option: str) -> bool:
    return any(option in (*parameter.opts, *parameter.secondary_opts) for parameter in command.params)


app = typer.Typer(
    name="export",
    cls=Formats,
    help="Hand on what is served in another form: tools for a language model, a bundle, an image, a client's file.",
    rich_markup_mode=None,
    no_args_is_help=True,
)


def _of_a_model(form: str) -> None:
    """Add the command of one language model's format."""

    @app.command(form, help=f"Print the tools as {form} takes them, as JSON.")
    def tools(
        file: File = None,
        strict: Annotated[
            bool, typer.Option("--strict", help="For OpenAI's strict mode, the tools that it can have.")
        ] = False,
        only: Annotated[
            list[str] | None, typer.Option("--only", metavar="NAME", help="This tool alone; may be repeated.")
        ] = None,
        output: Output = None,
        log_level: Level = "critical",
    ) -> None:
        from mcp_bridge.cli import exporting, logs

        logs.configure(log_level)
        exporting.export(form, file, exporting.Wishes(strict=strict, only=only or []), output)


for _form in FORMATS:
    _of_a_model(_form)


@app.command()
def mcpb(
    file: File = None,
    output: Output = None,
    wheel: Wheel = None,
    include: Include = None,
    needs: NeedsOption = None,
    env: Env = None,
    package_version: Version = None,
    description: Text = None,
    author: Annotated[str | None, typer.Option(metavar="NAME", help="Whose bundle it is.")] = None,
    licence: Annotated[str | None, typer.Option("--license", metavar="ID", help="Its licence, such as MIT.")] = None,
    log_level: Level = "critical",
) -> None:
    """Make a bundle for Claude Desktop: NAME.mcpb, or --output."""
    from mcp_bridge.cli import artefacts, logs
    from mcp_bridge.packaging.manifest import Description
    from mcp_bridge.packaging.project import Additions

    logs.configure(log_level)
    additions = Additions(include=include or (), requirements=needs or (), variables=env or ())
    told = Description(version=package_version, text=description, author=author, licence=licence)
    artefacts.export_mcpb(file, additions, told, wheel, output)


@app.command("server-json")
def server_json(
    namespace: Annotated[
        str, typer.Option(metavar="NAMESPACE", help="Whose it is in the registry, such as io.github.NAME.")
    ],
    file: File = None,
    output: Output = None,
    package: Annotated[
        str | None, typer.Option(metavar="NAME", help="A package of yours on PyPI that serves it.", show_default=False)
    ] = None,
    package_version: Version = None,
    bundle: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Or a bundle, made with export mcpb.", show_default=False)
    ] = None,
    bundle_url: Annotated[
        str | None, typer.Option(metavar="URL", help="And where it will be published.", show_default=False)
    ] = None,
    env: Env = None,
    description: Text = None,
) -> None:
    """Print an entry of the MCP registry, server.json."""
    from mcp_bridge.cli import artefacts
    from mcp_bridge.packaging.manifest import Description
    from mcp_bridge.packaging.project import Additions
    from mcp_bridge.packaging.server_json import published

    source = published(package, package_version, bundle, bundle_url)
    additions = Additions(variables=env or ())
    artefacts.export_server_json(file, additions, namespace, source, Description(text=description), output)


@app.command("mcp-json")
def mcp_json(
    file: File = None,
    output: Output = None,
    client: Annotated[
        str, typer.Option(metavar="CLIENT", help="Whose file: a name that `mcp-bridge clients` has, or inspector.")
    ] = "claude-code",
    name: ServerName = None,
) -> None:
    """Print a client's file: .mcp.json, or that of --client."""
    from mcp_bridge.cli import artefacts

    artefacts.export_mcp_json(file, client, name, output)


@app.command()
def links(file: File = None, output: Output = None, name: ServerName = None) -> None:
    """Print links that install this server into clients."""
    from mcp_bridge.cli import artefacts

    artefacts.export_links(file, name, output)


@app.command()
def dockerfile(
    file: File = None,
    output: Output = None,
    http: Annotated[bool, typer.Option("--http", help="Serve over HTTP on port 8808 instead of stdio.")] = False,
    wheel: Wheel = None,
    include: Include = None,
    needs: NeedsOption = None,
    env: Env = None,
) -> None:
    """Print a Dockerfile for the folder of the settings."""
    from mcp_bridge.cli import artefacts
    from mcp_bridge.packaging.project import Additions

    additions = Additions(include=include or (), requirements=needs or (), variables=env or ())
    artefacts.export_dockerfile(file, additions, wheel, output, http=http)
