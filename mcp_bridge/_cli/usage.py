"""Explains errors in the words of a command line, in one style: what is wrong, and what to write instead."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from typer.core import TyperOption
from typer.exceptions import TyperException

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.similar_names import find_similar_name

_MAX_VALUE = 60
"""The maximum number of characters of a value that a hint repeats."""
_CALLING_COMMANDS = frozenset({"call", "explain", "get"})
"""Commands whose last words are the arguments of a tool or prompt, as `name=value`."""


def check_options(context: Any, words: Sequence[str], *, stops_at_word: bool) -> None:
    """Raise ConfigError for the first unknown option, with a similar one.

    `stops_at_word` is whether the options end at the first other word, which is the name of a command.
    """
    flags: dict[str, bool] = {}
    for parameter in context.command.get_params(context):
        if isinstance(parameter, TyperOption):
            for name in (*parameter.opts, *parameter.secondary_opts):
                flags[name] = bool(parameter.is_flag)
    remaining = list(words)
    while remaining:
        word = remaining.pop(0)
        name, equals, value = word.partition("=")
        if word == "--" or (stops_at_word and not word.startswith("-")):
            return
        if word == "-" or not word.startswith("-"):
            continue
        if not word.startswith("--"):
            # A short option may be followed by others, or by its value.
            name, equals = word[:2], word[2:]
        if name not in flags:
            if not equals and remaining and not remaining[0].startswith("-"):
                value = remaining[0]
            raise _make_option_error(context, name, value, flags)
        if not flags[name] and not equals and remaining:
            remaining.pop(0)


def _make_option_error(context: Any, option: str, value: str, known: Iterable[str]) -> ConfigError:
    hints: list[str] = []
    similar_option = find_similar_option(option, known)
    if similar_option is not None:
        hints.append(f"Did you mean {similar_option}?")
    name = option.lstrip("-")
    if context.info_name in _CALLING_COMMANDS and name.isidentifier():
        if not value or len(value) > _MAX_VALUE:
            value = "VALUE"
        pair = shlex.quote(f"{name}={value}")
        hints.append(f"To pass an argument named {name}, write {pair}")
    if not hints:
        hints.append(f"See {context.command_path} --help")
    # The name of the program is not part of the name of a command.
    command = context.command_path.partition(" ")[2] or context.command_path
    return ConfigError(f"'{command}' has no option {option}", hint=" ".join(hints))


def find_similar_option(option: str, known: Iterable[str]) -> str | None:
    """Return a known option that is similar to a misspelt one or begins with it, or None."""
    long_options = [name for name in known if name.startswith("--")]
    if len(option) > len("--x"):
        for name in long_options:
            if name.startswith(option):
                return name
    return find_similar_name(option, long_options, cutoff=0.75)


def make_command_error(context: Any, word: str, replacement: str | None = None) -> ConfigError:
    """Make the error for an unknown command. `replacement` is a better suggestion than the most similar name."""
    name = replacement or find_similar_name(word, context.command.commands)
    hint = f"See {context.command_path} --help"
    if name is not None:
        hint = f"Did you mean '{name}'?"
    return ConfigError(f"unknown command '{word}'", hint=hint)


def explain_parser_error(context: Any, error: TyperException) -> ConfigError:
    """Make the error for a command line that the parser rejects, such as one without a required argument."""
    problem = error.format_message().rstrip(".")
    problem = problem[:1].lower() + problem[1:]
    problem = re.sub(r"^got unexpected extra argument(?:s|\(s\))? \((.*)\)$", r"too many arguments: \1", problem)
    return ConfigError(problem, hint=f"See {context.command_path} --help")
