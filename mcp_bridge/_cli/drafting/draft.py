"""A draft of a command as data, and as an entry of the settings."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_DESCRIPTION = 300
"""The maximum number of characters of the description of a parameter, and of a command."""
_FLOW_DEPTH = 4
"""Below `tools`, a tool, and its `command` or `parameters`, each entry is on one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftParameter:
    """An option or argument of a program.

    Attributes:
        name: Its name as the program writes it, without dashes.
        option: How it is written, such as `--name` or `-n`; empty for an argument.
        negation: The option that switches it off.
        kind: The type of its value, or of the items of a list.
        choices: The values that it can have, if they are known.
        is_list: Whether it can be given several times.
        joint: What joins the option and its value in one word, such as `=` or nothing. None for two words.
        takes_several: Whether one option takes all the values of a list.
        follows_dashes: Whether `--` precedes this argument.
    """

    name: str
    option: str = ""
    negation: str = ""
    kind: str = "string"
    choices: Sequence[str] = ()
    description: str = ""
    is_list: bool = False
    is_required: bool = False
    joint: str | None = None
    takes_several: bool = False
    follows_dashes: bool = False

    def write_schema(self) -> Any:
        """Write the parameter as in the settings."""
        item: dict[str, Any] = {"enum": list(self.choices)} if self.choices else {"type": self.kind}
        if self.is_list:
            item = {"type": "array", "items": item} if self.choices else {"type": f"{self.kind}[]"}
        text = _shorten(self.description)
        return {**item, "description": text} if text else item.get("type", item) if len(item) == 1 else item

    def write_parts(self, key: str) -> list[Any]:
        """Write the parts of the command, in which the parameter is named `key`."""
        value = f"{{{key}}}"
        if self.kind == "boolean":
            part = {"if": key, "add": self.option}
            return [{**part, "else": self.negation} if self.negation else part]
        if self.joint is not None:
            words = [f"{self.option}{self.joint}{value}"]
        else:
            words = [self.option, value] if self.option else [value]
        if self.takes_several:
            return [{"if": key, "add": words}]
        is_repeated = self.is_list and len(words) > 1
        return words if self.is_required and not is_repeated else [words]


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftCommand:
    """A command: its fixed words, and its parameters."""

    words: Sequence[str]
    description: str = ""
    parameters: Sequence[DraftParameter] = field(default_factory=tuple)

    @property
    def names(self) -> Sequence[str]:
        """The words that name the program and its subcommand."""
        words = self.words
        if words[1:2] == ["-m"]:
            words = words[2:]
        elif len(words) > 1 and words[1].endswith(".py"):
            words = words[1:]
        return [os.path.basename(word).removesuffix(".py") for word in words]

    @property
    def tool_name(self) -> str:
        """The name of the tool."""
        return re.sub(r"[^A-Za-z0-9]+", "_", "_".join(self.names)).strip("_")[:64] or "command"

    def write_entry(self) -> dict[str, Any]:
        """Write the entry of the tool in the settings."""
        named = _choose_keys(sorted(self.parameters, key=lambda one: bool(one.option)))  # arguments choose first
        arguments = [(key, one) for key, one in named if not one.option]
        options = [(key, one) for key, one in named if one.option]
        command: list[Any] = [*self.words]
        command += [part for key, one in options for part in one.write_parts(key)]
        for key, one in arguments:
            command += ["--"] if one.follows_dashes and "--" not in command else []
            command += one.write_parts(key)
        text = _shorten(self.description) or f"Runs {' '.join(self.names)}."
        tool: dict[str, Any] = {"description": text, "command": command}
        if named:
            tool["parameters"] = {key: one.write_schema() for key, one in [*options, *arguments]}
        return tool


def render_settings(command: DraftCommand) -> str:
    """Render a settings file with the tool of a command, as YAML."""
    from ruamel.yaml import YAML

    source = {"type": "command", "name": command.names[0], "tools": {command.tool_name: command.write_entry()}}
    yaml, text = YAML(), io.StringIO()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.width = 110
    yaml.dump({"sources": [_style(source)]}, text)
    return text.getvalue()


def render_example(words: Sequence[str]) -> str:
    """Render settings with a tool for a command that cannot be drafted, as a start for the user."""
    text = DraftParameter(name="text", is_required=True, description="What the parameter means.")
    return render_settings(DraftCommand(words=words, description="What the tool does.", parameters=[text]))


def _style(value: Any, depth: int = 0) -> Any:
    """Return a value whose parts of commands and parameters are on one line each, with `${` escaped."""
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

    if isinstance(value, str):
        return value.replace("${", "$${")
    if not isinstance(value, Mapping | list):
        return value
    styled: Any
    if isinstance(value, Mapping):
        styled = CommentedMap({key: _style(item, depth + 1) for key, item in value.items()})
    else:
        styled = CommentedSeq([_style(item, depth + 1) for item in value])
    if depth >= _FLOW_DEPTH:
        styled.fa.set_flow_style()
    return styled


def _choose_keys(parameters: Iterable[DraftParameter]) -> list[tuple[str, DraftParameter]]:
    """Return each parameter with a valid name, which no other one has."""
    named: dict[str, DraftParameter] = {}
    for one in parameters:
        base = re.sub(r"[^a-z0-9]+", "_", one.name.lower()).strip("_") or "value"
        base = f"_{base}" if base[0].isdigit() else base
        key, number = base, 2
        while key in named:
            key, number = f"{base}_{number}", number + 1
        named[key] = one
    return list(named.items())


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _DESCRIPTION else f"{text[: _DESCRIPTION - 4].rsplit(' ', 1)[0]} ..."
