"""The table of commands, without the parser, because completion in a shell has to be fast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mcp_bridge._cli import desktop_options, options
from mcp_bridge._cli.serve_options import ServeOptions


@dataclass(frozen=True, slots=True)
class Command:
    """A command: the class of its options, and the function to call with them (`module:name` in this package).

    A function that serves also gets an attribute of typer's context: `obj` is the process guard.
    """

    options: type
    target: str
    attribute: str | None = None


@dataclass(frozen=True, slots=True)
class CommandGroup:
    """Commands with a common first word, and the help of the group."""

    commands: Mapping[str, Command]
    help: str


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
    "completion": Command(options.CompletionOptions, "completion:print_script"),
    "shared": Command(options.SharedOptions, "shared.command:show_shared_servers"),
    "install": Command(desktop_options.InstallOptions, "install:install_server"),
    "uninstall": Command(desktop_options.UninstallOptions, "uninstall:uninstall_server"),
}
"""The commands that are in no group."""
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
GROUPS: Mapping[str, CommandGroup] = {
    "export": CommandGroup(
        EXPORT_COMMANDS,
        "Export the tools or the whole server. Tools are exported for the API of a language model, the server as a "
        "bundle, Dockerfile, registry entry, client file or links.",
    ),
    "module": CommandGroup(MODULE_COMMANDS, "Check Amplifier modules, and lock those that come from git."),
    "import": CommandGroup(
        IMPORT_COMMANDS, "Import the servers of your MCP clients, an OpenAPI document, or a program."
    ),
    "approvals": CommandGroup(
        APPROVAL_COMMANDS,
        "Approve or deny the tool calls of running bridges. Also lists and revokes remembered approvals.",
    ),
}
