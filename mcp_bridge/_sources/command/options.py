"""The options of commands as a source in the settings file. Imported late, because it imports pydantic."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._settings import OptionalSandbox, SettingsModel
from mcp_bridge._sources.command.outputs import OutputSettings
from mcp_bridge._sources.command.parameters import CommandParameters, check_use, find_dotted_paths, parse_parameters
from mcp_bridge._sources.command.template import (
    ArgumentTemplate,
    Placeholder,
    Word,
    find_separators,
    parse_template,
    parse_word,
)
from mcp_bridge._sources.command.tool import CommandSystem, CommandTool


def _check_command(value: Any) -> Any:
    # The template is parsed here too, so that its problems are reported at the key `command`.
    parse_template(value)
    return value


class CommandToolSettings(OutputSettings):
    """A command that is a tool."""

    command: Annotated[str | list[Any], BeforeValidator(_check_command)] = Field(
        description="The words of the command: text, which is split as a shell does, or a list. `{name}` is the value "
        "of a parameter. In a list, `[-n, '{count}']` is added if `count` is given, and "
        "`{if: verbose, add: --verbose}` if `verbose` is true.",
    )
    description: str = Field(default="", description="What the tool does, for the model.")
    tags: tuple[str, ...] = Field(default=(), description="Tags for the selection of tools.")
    annotations: dict[str, bool] = Field(
        default={},
        description="Hints for clients: `readOnlyHint`, `destructiveHint`, `idempotentHint`, `openWorldHint`.",
    )
    parameters: dict[str, Any] = Field(
        default={},
        description="The parameters: a mapping from names to types (`string`, `integer`, `number`, `boolean`, "
        "`object`, `path`; `string[]` is a list) or to JSON Schemas; or one JSON Schema of an object. A `path` has to "
        "be in `root`.",
    )
    allow_dash: tuple[str, ...] = Field(
        default=(), description="Parameters whose values may begin with `-`, and so become options of the program."
    )
    cwd: str = Field(
        default=".",
        description="The working directory, relative to `root` and inside of it. It can have placeholders.",
    )
    stdin: str | None = Field(default=None, description="The standard input, with placeholders. Default: none.")
    output_schema: dict[str, Any] = Field(default={}, description="The JSON Schema of `json` output.")
    stream: Literal["none", "progress", "log"] = Field(
        default="none",
        description="`progress` or `log`: send each line as a progress or log message while the program runs.",
    )

    _template: ArgumentTemplate = PrivateAttr()
    _parameters: CommandParameters = PrivateAttr()
    _directory: Word = PrivateAttr()
    _input: Word | None = PrivateAttr()

    @model_validator(mode="after")
    def _parse_parts(self) -> Self:
        self._template = parse_template(self.command)
        self._directory = parse_word(self.cwd)
        self._input = None if self.stdin is None else parse_word(self.stdin)
        input_word = self._input if self._input is not None else ()
        # The command always needs the parameters of `cwd` and `stdin`, as those of required words.
        outer_names: set[str] = set()
        for piece in self._directory + input_word:
            if isinstance(piece, Placeholder):
                outer_names.add(piece.name)
        parameters = parse_parameters(self.parameters, self._template.required | outer_names)
        dotted_paths = find_dotted_paths([*self._template.words, self._directory, input_word], parameters.paths)
        self._parameters = replace(parameters, dotted_paths=dotted_paths)
        check_use(self._parameters, self._template, outer_names)
        for name in sorted(self.allow_dash):
            if name not in self._parameters.properties:
                raise ValueError(f"allow_dash: there is no parameter '{name}'")
        if self.output_schema and self.output not in ("json", "json_lines"):
            raise ValueError("output_schema requires output: json or json_lines")
        for code in sorted(self.errors):
            if code in self.exit_codes:
                raise ValueError(f"errors: {code} is an exit code that means success")
        return self

    def build_command(self, name: str, system: CommandSystem) -> tuple[ToolEntry, CommandTool]:
        """Build the tool and its handler. `CommandSource` later replaces the program of the handler by its path."""
        words = self._template.words
        if self._input is not None:
            words = [*words, self._input]
        handler = CommandTool(
            program=self._template.program,
            template=self._template,
            parameters=self._parameters,
            separators={path: find_separators(words, path) for path in self._parameters.paths},
            directory=self._directory,
            stdin=self._input,
            allow_dash=frozenset(self.allow_dash),
            streaming=self.stream,
            system=system,
            output=self,
        )
        entry = ToolEntry(
            name,
            self.description,
            handler,
            dict(self._parameters.schema),
            self.output_schema,
            list(self.tags),
            annotations=dict(self.annotations),
        )
        return entry, handler


class CommandOptions(SettingsModel):
    """Commands: programs that run without a shell, each as a tool."""

    tools: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")], CommandToolSettings] = Field(
        min_length=1, description="The commands by the names of their tools. See [Commands](commands.md)."
    )
    root: str = Field(
        default=".",
        min_length=1,
        description="The folder that must contain all working directories and paths. Relative paths start at the "
        "folder of the settings file.",
    )
    env: dict[str, str] = Field(
        default={},
        description="Environment variables, in addition to PATH, HOME, LANG and similar ones. A value can be a "
        "reference: `env:NAME`, `file:PATH` or `keyring:SERVICE/NAME`.",
    )
    sandbox: OptionalSandbox = Field(
        default=None,
        description="`true`: the programs can read only the system, themselves and `root`, and have no network. "
        "A mapping allows more.",
    )
