"""The table of commands. A command's module is imported when the command runs, so that `--help` stays fast."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, get_args, get_type_hints

import typer

from mcp_bridge._cli import desktop_options, options
from mcp_bridge._cli.groups import DefaultGroup, FormatGroup, RootGroup, ServeCommand, ServerCommand
from mcp_bridge._cli.help import FULL_HELP, PlainCommand, PlainGroup
from mcp_bridge._cli.parameters import Argument
from mcp_bridge._cli.serve_options import ServeOptions
from mcp_bridge._runtime.signatures import get_signature
from mcp_bridge._version import __version__


@dataclass(frozen=True, slots=True)
class Command:
    """A command: the class of its options, and the function to call with them (`module:name` in this package).

    A function that serves also gets an attribute of typer's context: `obj` is the process guard.
    """

    options: type
    target: str
    attribute: str | None = None


COMMANDS: Mapping[str, Command] = {
    "serve": Command(ServeOptions, "serve:serve_target", attribute="obj"),
    "dev": Command(options.DevOptions, "dev:serve_page", attribute="obj"),
    "worker": Command(options.WorkerOptions, "worker:run_tasks", attribute="obj"),
    "top": Command(options.TopOptions, "top:show_calls"),
    "list": Command(options.ListOptions, "listing:list_entries"),
    "call": Command(options.CallOptions, "call:call_tool"),
    "explain": Command(options.ExplainOptions, "explain:explain_tool_call"),
    "read": Command(options.ReadOptions, "reading:print_resource"),
    "get": Command(options.GetOptions, "reading:get_prompt"),
    "init": Command(options.InitOptions, "init:create_project"),
    "validate": Command(options.ValidateOptions, "validate:validate_target"),
    "doctor": Command(options.DoctorOptions, "doctor.command:run_doctor"),
    "trust": Command(options.TrustOptions, "trust:review_definitions"),
    "audit": Command(options.TrailOptions, "audit:read_trail"),
    "login": Command(options.LoginOptions, "login:sign_in_to_server"),
    "schema": Command(options.SchemaOptions, "listing:print_settings_schema"),
    "shared": Command(options.SharedOptions, "shared.command:show_shared_servers"),
    "install": Command(desktop_options.InstallOptions, "install:install_server"),
    "uninstall": Command(desktop_options.UninstallOptions, "uninstall:uninstall_server"),
}
"""The commands in the order of `--help`."""
EXPORT_COMMANDS: Mapping[str, Command] = {
    "tools": Command(desktop_options.ToolExportOptions, "export:export_tools"),
    "mcpb": Command(desktop_options.BundleOptions, "export:export_bundle"),
    "server-json": Command(desktop_options.RegistryEntryOptions, "export:export_registry_entry"),
    "mcp-json": Command(desktop_options.ClientFileOptions, "export:export_client_file"),
    "dockerfile": Command(desktop_options.DockerfileOptions, "export:export_dockerfile"),
}
MODULE_COMMANDS: Mapping[str, Command] = {
    "validate": Command(options.ModuleOptions, "module:check_module"),
    "lock": Command(options.LockOptions, "module_lock:lock_modules"),
}
APPROVAL_COMMANDS: Mapping[str, Command] = {
    "answer": Command(options.AnswerOptions, "approval_terminal:answer_bridges"),
    "list": Command(options.GrantListOptions, "approvals:show_grants"),
    "revoke": Command(options.RevokeOptions, "approvals:revoke_grants"),
}
IMPORT_COMMANDS: Mapping[str, Command] = {
    "clients": Command(desktop_options.ImportOptions, "importing:import_servers"),
    "openapi": Command(desktop_options.OpenApiImportOptions, "openapi_import:import_document"),
    "command": Command(desktop_options.ImportCommandOptions, "drafting.command:import_command"),
}


def _add_commands(group: typer.Typer, commands: Mapping[str, Command]) -> None:
    for name, command in commands.items():
        command_class = PlainCommand
        if command.options is ServeOptions:
            command_class = ServeCommand
        elif hasattr(command.options, "token_env"):
            command_class = ServerCommand
        group.command(name, help=command.options.__doc__, cls=command_class)(_make_callback(command))


def _make_callback(command: Command) -> Callable[..., None]:
    """Make the function for typer, which reads its signature. Its parameters are the fields of the options."""
    module, _, function = command.target.partition(":")

    def run_command(context: typer.Context, **values: Any) -> None:
        target = getattr(import_module(f"mcp_bridge._cli.{module}"), function)
        if command.attribute is None:
            target(command.options(**values))
        else:
            target(command.options(**values), getattr(context, command.attribute))

    hints: dict[str, Any] = {"context": typer.Context}
    for name, hint in get_type_hints(command.options, include_extras=True).items():
        value_type, parameter = get_args(hint)
        if isinstance(parameter, Argument):
            settings = {"metavar": name.upper(), **parameter.settings}
            hints[name] = Annotated[value_type, typer.Argument(**settings)]
        else:
            hints[name] = Annotated[value_type, typer.Option(*parameter.names, **parameter.settings)]
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY)
    fields = [context, *get_signature(command.options).parameters.values()]
    run_command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [field.replace(kind=field.KEYWORD_ONLY, annotation=hints[field.name]) for field in fields]
    )
    run_command.__annotations__ = hints
    return run_command


app = typer.Typer(
    name="mcp-bridge",
    help="Serve the tools you already have to any MCP client.",
    # With rich, `--help` takes three times as long.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    cls=RootGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_GROUPS: Sequence[tuple[str, Mapping[str, Command], type[PlainGroup], str]] = (
    (
        "export", EXPORT_COMMANDS, FormatGroup,
        "Export the tools or the whole server. Tools are exported for the API of a language model, the server as a "
        "bundle, Dockerfile, registry entry, client file or links.",
    ),
    ("module", MODULE_COMMANDS, PlainGroup, "Check Amplifier modules, and lock those that come from git."),
    (
        "import", IMPORT_COMMANDS, DefaultGroup,
        "Import the servers of your MCP clients, an OpenAPI document, or a program.",
    ),
    (
        "approvals", APPROVAL_COMMANDS, DefaultGroup,
        "Approve or deny the tool calls of running bridges. Also lists and revokes remembered approvals.",
    ),
)  # fmt: skip
_add_commands(app, COMMANDS)
for _name, _commands, _class, _help in _GROUPS:
    _group = typer.Typer(name=_name, cls=_class, help=_help, rich_markup_mode=None)
    _add_commands(_group, _commands)
    app.add_typer(_group)


def _print_version(is_given: bool) -> None:
    if is_given:
        print(f"mcp-bridge {__version__}")
        raise typer.Exit


def _print_full_help(context: typer.Context, is_given: bool) -> None:
    if is_given:
        context.meta[FULL_HELP] = True
        print(context.get_help())
        raise typer.Exit


@app.callback()
def accept_common_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    help_all: Annotated[
        bool, typer.Option("--help-all", callback=_print_full_help, is_eager=True, help="Explain every command.")
    ] = False,
) -> None:
    """Accept the options of every command."""
