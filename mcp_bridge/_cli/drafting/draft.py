"""A draft of a tool for a program: its words and parameters as data, and as an entry of the settings."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_MAX_DESCRIPTION = 300
"""The maximum number of characters of the description of a parameter, and of a command."""
_FLOW_DEPTH = 4
"""Depth in a source: `tools`, a tool, and its `command` or `parameters` have several lines, deeper values have one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftParameter:
    """An option or argument of a program.

    Attributes:
        name: Its name as the program writes it, without dashes.
        option: How it is written, such as `--name` or `-n`; empty for an argument.
        negation: The option for false.
        type: The type of its value, or of the items of a list.
        choices: The possible values, if they are known.
        is_list: Whether it can be given several times.
        joint: The text between the option and its value in one word, such as `=` or nothing. None for two words.
        takes_several: Whether one option takes all the values of a list.
        follows_dashes: Whether `--` precedes this argument.
    """

    name: str
    option: str = ""
    negation: str = ""
    type: str = "string"
    choices: Sequence[str] = ()
    description: str = ""
    is_list: bool = False
    is_required: bool = False
    joint: str | None = None
    takes_several: bool = False
    follows_dashes: bool = False

    def write_schema(self) -> Any:
        """Return the schema of the parameter for the settings, where the name of a type may replace its schema."""
        schema: dict[str, Any] = {"type": f"{self.type}[]" if self.is_list else self.type}
        if self.choices:
            schema = {"enum": list(self.choices)}
            if self.is_list:
                schema = {"type": "array", "items": schema}
        text = _shorten(self.description)
        if text:
            return {**schema, "description": text}
        return schema if self.choices else schema["type"]

    def write_parts(self, key: str) -> list[Any]:
        """Return the words of the command in the settings for this parameter. `key` is its key there."""
        value = f"{{{key}}}"
        if self.type == "boolean":
            condition = {"if": key, "add": self.option}
            if self.negation:
                condition["else"] = self.negation
            return [condition]
        words = [value]
        if self.joint is not None:
            words = [f"{self.option}{self.joint}{value}"]
        elif self.option:
            words = [self.option, value]
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
        """The names of the program and its subcommand."""
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
        """Return the entry of the tool for the settings."""
        parameters = self._choose_keys()
        # In the command, options come before arguments.
        ordered_keys = sorted(parameters, key=lambda key: not parameters[key].option)
        command: list[Any] = list(self.words)
        for key in ordered_keys:
            parameter = parameters[key]
            if parameter.follows_dashes and "--" not in command:
                command.append("--")
            command += parameter.write_parts(key)
        text = _shorten(self.description) or f"Runs {' '.join(self.names)}."
        tool: dict[str, Any] = {"description": text, "command": command}
        if self.parameters:
            tool["parameters"] = {key: parameters[key].write_schema() for key in ordered_keys}
        return tool

    def _choose_keys(self) -> dict[str, DraftParameter]:
        """Return the parameters by unique keys for the settings.

        Arguments come first, so that they keep their names if options have the same names.
        """
        parameters: dict[str, DraftParameter] = {}
        for parameter in sorted(self.parameters, key=lambda parameter: bool(parameter.option)):
            base = re.sub(r"[^a-z0-9]+", "_", parameter.name.lower()).strip("_") or "value"
            if base[0].isdigit():
                base = f"_{base}"
            key = base
            number = 2
            while key in parameters:
                key = f"{base}_{number}"
                number += 1
            parameters[key] = parameter
        return parameters


def render_settings(command: DraftCommand) -> str:
    """Render a settings file with the tool of a command, as YAML."""
    source = {"type": "command", "name": command.names[0], "tools": {command.tool_name: command.write_entry()}}
    return render_source(source, _FLOW_DEPTH)


def render_source(source: Mapping[str, Any], flow_depth: int) -> str:
    """Render a settings file with one source, as YAML. Values at `flow_depth` or deeper are on one line each."""
    from ruamel.yaml import YAML

    yaml = YAML()
    text = io.StringIO()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.width = 110
    yaml.dump({"sources": [_style(source, flow_depth)]}, text)
    return text.getvalue()


def render_example(words: Sequence[str]) -> str:
    """Render an example of a tool for a command without a draft, as a start for the user."""
    text = DraftParameter(name="text", is_required=True, description="What the parameter means.")
    return render_settings(DraftCommand(words=words, description="What the tool does.", parameters=[text]))


def _style(value: Any, flow_depth: int) -> Any:
    """Return a value for ruamel.yaml, with containers below `flow_depth` on one line, and with `${` escaped."""
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

    if isinstance(value, str):
        return value.replace("${", "$${")
    if not isinstance(value, Mapping | list):
        return value
    node: Any
    if isinstance(value, Mapping):
        node = CommentedMap({key: _style(item, flow_depth - 1) for key, item in value.items()})
    else:
        node = CommentedSeq([_style(item, flow_depth - 1) for item in value])
    if flow_depth <= 0:
        node.fa.set_flow_style()
    return node


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    if len(text) <= _MAX_DESCRIPTION:
        return text
    # The text is truncated between two words.
    words, _, _ = text[: _MAX_DESCRIPTION - 4].rpartition(" ")
    return f"{words} ..."
