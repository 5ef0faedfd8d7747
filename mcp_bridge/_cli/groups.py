"""The groups and commands that read their words in a special way, such as the command of a server after `--`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from mcp_bridge._cli.help import PlainCommand, PlainGroup
from mcp_bridge._cli.usage import make_command_error
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.similar_names import find_similar_name

_FASTMCP_COMMANDS: Mapping[str, str] = {"run": "serve", "inspect": "list", "discover": "import"}
"""Commands of FastMCP, and the commands here that do the same."""


class RootGroup(PlainGroup):
    """The command itself."""

    everyday: ClassVar[Sequence[str]] = ("init", "dev", "call", "serve", "install", "doctor")
    sections: ClassVar[Mapping[str, Sequence[str]]] = {
        "Try": ("list", "read", "get", "explain"),
        "Check": ("validate", "module", "trust", "audit"),
        "Run": ("top", "approvals", "shared", "worker"),
        "Connect": ("import", "login", "uninstall"),
        "Publish": ("export",),
        "Edit": ("schema", "completion"),
    }

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return a command. Raises ConfigError for a file in its place, and for a command of FastMCP."""
        if args and args[0] not in self.commands:
            # Imported late, so that `--help` stays fast.
            from mcp_bridge._cli.server_address import is_target

            word = args[0]
            if word in _FASTMCP_COMMANDS:
                raise make_command_error(ctx, word, _FASTMCP_COMMANDS[word])
            if is_target(word) and "://" not in word:
                hint = f"Serve it with: {shlex.join(['mcp-bridge', 'serve', word])}"
                raise ConfigError(f"'{word}' is not a command", hint=hint)
        return super().resolve_command(ctx, args)


class FormatGroup(PlainGroup):
    """A group whose commands are formats. Its errors list the formats, or those with an option."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of a format. Raises ConfigError for an unknown format or an option of other formats."""
        if args and args[0] not in self.commands:
            formats = ", ".join(self.commands)
            raise ConfigError(f"unknown format '{args[0]}'", where="FORMAT", hint=f"Use one of: {formats}")
        command = super().resolve_command(ctx, args)
        options: dict[str, set[str]] = {}
        for name, subcommand in self.commands.items():
            options[name] = set()
            for parameter in subcommand.params:
                options[name].update(parameter.opts, parameter.secondary_opts)
        for word in args[1:]:
            if word == "--":
                break
            option = word.partition("=")[0]
            # The parser reports options that no format has.
            formats_with_option = [
                name for name in self.commands if option.startswith("--") and option in options[name]
            ]
            if formats_with_option and args[0] not in formats_with_option:
                hint = f"These formats have it: {', '.join(formats_with_option)}"
                raise ConfigError(f"'{args[0]}' has no option {option}", hint=hint)
        return command


class DefaultGroup(PlainGroup):
    """A group whose first command is the default."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse `approvals FILE` as `approvals answer FILE`. Raises ConfigError for a misspelt command."""
        if args and args[0] not in self.commands and not os.path.exists(args[0]):
            name = find_similar_name(args[0], self.commands, cutoff=0.75)
            if name is not None:
                raise make_command_error(ctx, args[0], name)
        if not args or (args[0] not in self.commands and args[0] not in {"--help", "-h"}):
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)


class ServerCommand(PlainCommand):
    """A command for any MCP server. Words after `--` are the command that starts the server."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse `-- WORD ...` as `--command 'WORD ...'`."""
        if "--" in args:
            end = args.index("--")
            args = [*args[:end], "--command", shlex.join(args[end + 1 :])]
        return super().parse_args(ctx, args)


class ServeCommand(PlainCommand):
    """The command `serve`. Its errors explain options of the same command in other MCP frameworks."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments. Raises ConfigError for `--port`, `--host` and `--transport`."""
        values: dict[str, str] = {}
        for index, word in enumerate(args):
            name, equals, value = word.partition("=")
            if name in ("--port", "--host", "--transport"):
                if not equals and index + 1 < len(args):
                    value = args[index + 1]
                values.setdefault(name, value)
        if not values:
            return super().parse_args(ctx, args)
        host, port = values.get("--host", ""), values.get("--port", "")
        if values.get("--transport") == "stdio" and not host and not port:
            hint = "Leave it out: stdio is the default"
        else:
            address = port or "8808"
            if host:
                address = f"[{host}]:{address}" if ":" in host else f"{host}:{address}"
            hint = f"Serve over HTTP with: --http {address}"
        option = next(iter(values))
        raise ConfigError(f"'serve' has no option {option}", hint=hint)
