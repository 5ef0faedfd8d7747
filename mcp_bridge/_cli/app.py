"""The table of commands. A command's module is imported when the command runs, so that `--help` stays fast."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, ClassVar, get_args, get_type_hints

import typer

from mcp_bridge._cli import desktop_options, options
from mcp_bridge._cli.help import PlainCommand, PlainGroup
from mcp_bridge._cli.parameters import Argument
from mcp_bridge._cli.serve_options import ServeOptions
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._version import __version__


@dataclass(frozen=True, slots=True)
class Command:
    """A command: the class of its options, and the function (`module:name` in this package) that is called with them.

    Some functions are called with an attribute of typer's context too: `obj`, the process guard, or `info_name`, the
    name of the command.
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
    "clients": Command(desktop_options.ClientsOptions, "clients:list_clients"),
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


_FASTMCP_COMMANDS: Mapping[str, str] = {"run": "serve", "inspect": "list"}
"""Commands of FastMCP, and the ones that do the same here."""


class RootGroup(PlainGroup):
    """The command itself."""

    sections: ClassVar[Mapping[str, Sequence[str]]] = {
        "Start": ("init", "import", "dev", "login"),
        "Serve": ("serve", "top", "worker", "shared", "approvals", "trust", "audit"),
        "Try": ("list", "call", "explain", "read", "get"),
        "Check": ("validate", "doctor", "module"),
        "Connect clients": ("clients", "install", "uninstall"),
        "Publish": ("export", "schema"),
    }

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return a command. Raises ConfigError for a file in its place, and for a command of FastMCP."""
        if args and args[0] not in self.commands:
            from mcp_bridge._cli.server_address import is_target  # late, so that `--help` stays fast

            word = args[0]
            if word in _FASTMCP_COMMANDS:
                raise ConfigError(f"unknown command '{word}'", hint=f"Did you mean '{_FASTMCP_COMMANDS[word]}'?")
            if is_target(word) and "://" not in word:
                hint = f"Serve it with: {shlex.join(['mcp-bridge', 'serve', word])}"
                raise ConfigError(f"'{word}' is not a command", hint=hint)
        return super().resolve_command(ctx, args)


class FormatGroup(PlainGroup):
    """A group whose errors list the formats, and the formats that have an option."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of a format. Raises ConfigError for an unknown format or an option of other formats."""
        if args and args[0] not in self.commands:
            known = ", ".join(self.commands)
            raise ConfigError(f"unknown format '{args[0]}'", where="FORMAT", hint=f"Use one of: {known}")
        resolved = super().resolve_command(ctx, args)
        _check_options(args[0], args[1:], self.commands)
        return resolved


class DefaultGroup(PlainGroup):
    """A group whose first command is the default."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse `approvals FILE` as `approvals answer FILE`."""
        if not args or (args[0] not in self.commands and args[0] not in {"--help", "-h"}):
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)


class ServerCommand(PlainCommand):
    """A command for any MCP server. Words after `--` are the command that starts the server."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse `-- WORD ...` as `--command 'WORD ...'`."""
        if "--" in args and not ctx.resilient_parsing:  # otherwise a shell completes the words
            end = args.index("--")
            args = [*args[:end], "--command", shlex.join(args[end + 1 :])]
        return super().parse_args(ctx, args)


class ServeCommand(PlainCommand):
    """`serve`, which explains the options that other MCP commands have."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments. Raises ConfigError for `--port`, `--host` and `--transport`."""
        given = {name: _find_value(name, args) for name in ("--port", "--host", "--transport")}
        option = next((name for name, value in given.items() if value is not None), None)
        if option is None or ctx.resilient_parsing:  # a shell completes the words
            return super().parse_args(ctx, args)
        is_stdio = given["--transport"] == "stdio" and not given["--port"] and not given["--host"]
        host = given["--host"]
        host = f"[{host}]" if host and ":" in host else host
        address = ":".join(filter(None, (host, given["--port"] or "8808")))
        hint = "Leave it out: stdio is the default" if is_stdio else f"Serve over HTTP with: --http {address}"
        raise ConfigError(f"'serve' has no option {option}", where=option, hint=hint)


def _find_value(option: str, words: Sequence[str]) -> str | None:
    """Return the value of an option, which may be empty, or None if it is not given."""
    for word, following in zip(words, [*words[1:], ""], strict=False):
        name, equals, value = word.partition("=")
        if name == option:
            return value if equals else following
    return None


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


def _add_commands(group: typer.Typer, commands: Mapping[str, Command]) -> None:
    for name, command in commands.items():
        group.command(name, help=command.options.__doc__, cls=_choose_class(command))(_make_callback(command))


def _choose_class(command: Command) -> type[PlainCommand]:
    if command.options is ServeOptions:
        return ServeCommand
    return ServerCommand if hasattr(command.options, "token_env") else PlainCommand


def _make_callback(command: Command) -> Callable[..., None]:
    """Make the function that typer calls: its parameters are the fields of the options."""
    module, _, function = command.target.partition(":")

    def run_command(context: typer.Context, **values: Any) -> None:
        target = getattr(import_module(f"mcp_bridge._cli.{module}"), function)
        extra = [getattr(context, command.attribute)] if command.attribute is not None else []
        target(command.options(**values), *extra)

    hints: dict[str, Any] = {"context": typer.Context}
    for name, hint in get_type_hints(command.options, include_extras=True).items():
        kind, parameter = get_args(hint)
        make_parameter = typer.Argument if isinstance(parameter, Argument) else typer.Option
        hints[name] = Annotated[kind, make_parameter(*parameter.names, **parameter.settings)]
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY)
    fields = [context, *inspect.signature(command.options).parameters.values()]
    run_command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [field.replace(kind=field.KEYWORD_ONLY, annotation=hints[field.name]) for field in fields]
    )
    run_command.__annotations__ = hints
    return run_command


app = typer.Typer(
    name="mcp-bridge",
    help="Serve the tools you already have to any MCP client.",
    rich_markup_mode=None,  # with rich, --help takes three times as long
    pretty_exceptions_enable=False,
    no_args_is_help=True,
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
    _group = typer.Typer(name=_name, cls=_class, help=_help, rich_markup_mode=None, no_args_is_help=True)
    _add_commands(_group, _commands)
    app.add_typer(_group)


def _print_version(is_given: bool) -> None:
    if is_given:
        print(f"mcp-bridge {__version__}")
        raise typer.Exit


@app.callback()
def accept_common_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Accept the options of every command."""
