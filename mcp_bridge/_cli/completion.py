"""Completes the words of a command line in a shell: commands, options, clients, tools of a file and their arguments.

argcomplete has the scripts for the shells, and the rules for quoting in each of them. The parser here is made from the
same table of commands as that of typer, and only completes words, because importing typer takes 100 ms.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import anyio
import argcomplete
from argcomplete.completers import FilesCompleter
from argcomplete.lexers import split_line
from argcomplete.shell_integration import shellcode

from mcp_bridge._app.server_name import SETTINGS_SUFFIXES
from mcp_bridge._cli.commands import COMMANDS, GROUPS, Command
from mcp_bridge._cli.options import CompletionOptions
from mcp_bridge._cli.parameters import Argument, list_names
from mcp_bridge._cli.schema_values import list_arguments, list_values
from mcp_bridge._cli.server_address import is_target, is_url
from mcp_bridge._cli.target import NO_RECORD_VARIABLE, load_target, run_sources
from mcp_bridge._runtime.terminal_text import escape_line

if TYPE_CHECKING:
    from mcp_bridge._app.bridge import Bridge

PROGRAMS = ("mcp-bridge", "mcp-tool-bridge")
START_TIMEOUT = 10.0
"""Seconds to wait for the servers in a settings file. The tools of slower ones are left out."""
_MAX_LENGTH = 200
"""The maximum number of characters of a completed word. Longer ones are left out."""
_MAX_WORDS = 50
"""The maximum number of words of a command that are completed."""
_CHOICES = re.compile(r"[a-z]+(\|[a-z]+)+")
"""The metavar of an option with choices, such as `user|project|local`."""

Completer = Callable[..., Iterable[str] | Mapping[str, str]]
Schemas = Mapping[str, tuple[str, Mapping[str, Any]]]
"""The names of tools or prompts, each with its description and the schema of its arguments."""


def print_script(options: CompletionOptions) -> None:
    """Print the script for a shell. The shell calls this program for each completion."""
    print(shellcode(PROGRAMS, shell=options.shell), end="")


def complete_words() -> None:
    """Write the completions of the words in the environment to the shell, and end the process."""
    parser = argparse.ArgumentParser(prog=PROGRAMS[0])
    parser.add_argument("--version", action="store_true", help="Print the version and exit.")
    parser.add_argument("--help-all", action="store_true", help="Explain every command.")
    commands = parser.add_subparsers()
    for name, command in COMMANDS.items():
        _add_command(commands, name, command)
    for group_name, group in GROUPS.items():
        group_parser = commands.add_parser(group_name, help=_format_help(group.help))
        group_commands = group_parser.add_subparsers()
        for name, command in group.commands.items():
            _add_command(group_commands, name, command)
    argcomplete.autocomplete(parser, always_complete_options=False, validator=_is_completion)


def _is_completion(word: str, prefix: str) -> bool:
    """Return whether a word begins with the prefix. Control characters would change the user's terminal."""
    return word.startswith(prefix) and word.isprintable() and len(word) <= _MAX_LENGTH


def _add_command(commands: Any, command_name: str, command: Command) -> None:
    parser = commands.add_parser(command_name, help=_format_help(command.options.__doc__ or ""))
    flags: dict[str, bool] = {"-h": True, "--help": True}
    for field, hint in get_type_hints(command.options, include_extras=True).items():
        value_type, parameter = get_args(hint)
        help_text = _format_help(parameter.settings.get("help", ""))
        completer = _choose_completer(value_type, parameter.settings)
        if isinstance(parameter, Argument):
            if field == "words" and command_name in _SCHEMA_READERS:
                completer = partial(_complete_call, command_name, flags)
            # An optional argument, or a list of them, would be complete before an option that precedes it.
            count = _MAX_WORDS if value_type == list[str] else 1
            for number in range(count):
                parser.add_argument(f"{field}{number}").completer = completer
            continue
        names = dict(list_names(field, hint))
        is_flag = None not in names.values()
        flags.update(dict.fromkeys(names, is_flag))
        if is_flag:
            parser.add_argument(*names, dest=field, action="store_true", help=help_text)
        else:
            parser.add_argument(*names, dest=field, action="append", help=help_text).completer = completer


def _format_help(text: str) -> str:
    """Return the first sentence of a help text, with `%` escaped for argparse."""
    return " ".join(text.split()).partition(". ")[0].replace("%", "%%")


def _choose_completer(value_type: Any, settings: Mapping[str, Any]) -> Completer:
    choices: list[str] = []
    for alternative in (value_type, *get_args(value_type)):
        choices += [choice for choice in get_args(alternative) if isinstance(choice, str)]
    metavar = settings.get("metavar", "")
    if _CHOICES.fullmatch(metavar):
        choices = metavar.split("|")
    list_names_for = settings.get("autocompletion")

    def complete_value(prefix: str, **_: Any) -> Iterable[str]:
        if list_names_for is not None:
            # A client or a file may be given.
            return list_names_for(prefix) or FilesCompleter()(prefix)
        return choices or FilesCompleter()(prefix)

    return complete_value


def _complete_call(command: str, flags: Mapping[str, bool], prefix: str, parsed_args: Any, **options: Any) -> Any:
    """Complete `[TARGET] NAME [KEY=VALUE]...`: a file, then its tools or prompts, then the arguments of one of them.

    A file is loaded only if the line names it, or the tool. Otherwise the key Tab would run code that the user may not
    have meant.
    """
    words = _list_words(flags)
    target = os.path.expanduser(parsed_args.file[-1]) if parsed_args.file else None
    if target is None and words and is_target(words[0]):
        target = words.pop(0)
    if not words and target is None:
        return FilesCompleter([suffix.removeprefix(".") for suffix in (".py", *SETTINGS_SUFFIXES)])(prefix)
    if getattr(parsed_args, "command", None) or (target is not None and is_url(target)):
        return {}
    schemas = _SCHEMA_READERS[command](_load_bridge(target))
    if not words:
        return {name: escape_line(description) for name, (description, _) in schemas.items()}
    _, schema = schemas.get(words[0], ("", {}))
    key, equals, _value = prefix.partition("=")
    if equals:
        return {f"{key}={value}": key for value in list_values(schema, key)}
    used_keys = [word.partition("=")[0] for word in words[1:]]
    return {f"{name}=": escape_line(text) for name, text in list_arguments(schema).items() if name not in used_keys}


def _list_words(flags: Mapping[str, bool]) -> list[str]:
    """Return the words before the cursor that are neither the command nor options. `flags` has the options."""
    *_, words, _ = split_line(os.environ["COMP_LINE"], int(os.environ["COMP_POINT"]))
    arguments: list[str] = []
    # The first two words are the program and the command.
    remaining = iter(words[2:])
    for word in remaining:
        if not word.startswith("-"):
            # The shell has not expanded the word yet.
            arguments.append(os.path.expanduser(word))
        elif not flags.get(word, True):
            next(remaining, None)
    return arguments


def _load_bridge(target: str | None) -> Bridge:
    # A program in the settings may use argcomplete, too. It must not complete words instead of starting.
    os.environ.pop("_ARGCOMPLETE", None)
    os.environ[NO_RECORD_VARIABLE] = "1"
    bridge = load_target(target).bridge
    anyio.run(_start_sources, bridge)
    return bridge


async def _start_sources(bridge: Bridge) -> None:
    with anyio.move_on_after(START_TIMEOUT):
        async with run_sources(bridge, serving=False):
            await bridge.wait_until_started()
            await bridge.wait_until_connected()


def _read_tools(bridge: Bridge) -> Schemas:
    return {entry.name: (entry.description, entry.input_schema) for entry in bridge.registry.list()}


def _read_prompts(bridge: Bridge) -> Schemas:
    schemas: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for entry in bridge.registry.prompts:
        properties = {argument.name: {"type": "string"} for argument in entry.arguments}
        schemas[entry.name] = entry.description, {"properties": properties}
    return schemas


def _read_resources(bridge: Bridge) -> Schemas:
    return {entry.uri: (entry.description, {}) for entry in bridge.registry.resources}


_SCHEMA_READERS: Mapping[str, Callable[[Bridge], Schemas]] = {
    "call": _read_tools,
    "explain": _read_tools,
    "get": _read_prompts,
    "read": _read_resources,
}
"""The commands with a target and a name."""
