"""Commands in the settings: parameters, their short forms, and mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._contracts.errors import ConfigError
from tests.kits.commands.command_kit import Json, build_bridge, connect_commands
from tests.kits.wire.speaking import list_tools


async def list_schema(folder: Path, **tool: Any) -> Json:
    async with connect_commands(folder, {"t": tool}) as client:
        (entry,) = await list_tools(client)
        return entry["inputSchema"]  # type: ignore[no-any-return]


async def test_short_forms_become_schemas_and_parameters_of_required_words_are_required(tmp_path: Path) -> None:
    command = ["echo", "{a}", ["-n", "{b}"], {"if": "c", "add": "-c"}, "{d}", "{e}", "{f}"]
    parameters = {
        "a": "string", "b": {"type": "integer", "minimum": 1, "description": "B."}, "c": "boolean", "d": "path[]",
        "e": {"type": "number", "default": 1.5}, "f": {"enum": ["x", "y"]},
    }  # fmt: skip
    assert await list_schema(tmp_path, command=command, parameters=parameters) == {
        "type": "object",
        "additionalProperties": False,
        "required": ["a", "d", "f"],
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "integer", "minimum": 1, "description": "B."},
            "c": {"type": "boolean"},
            "d": {"type": "array", "items": {"type": "string"}},
            "e": {"type": "number", "default": 1.5},
            "f": {"enum": ["x", "y"]},
        },
    }


async def test_a_json_schema_of_all_parameters_is_published_as_it_is(tmp_path: Path) -> None:
    schema = {
        "type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "required": ["a"],
        "$defs": {"A": {"minLength": 2}},
    }  # fmt: skip
    assert await list_schema(tmp_path, command="echo {a}", parameters=schema) == schema


async def test_a_tool_has_a_description_and_annotations(tmp_path: Path) -> None:
    tool = {
        "command": "echo", "description": "D.", "annotations": {"readOnlyHint": True}, "output": "json",
        "output_schema": {"type": "object"},
    }  # fmt: skip
    async with connect_commands(tmp_path, {"t": tool}, prefix="p") as client:
        (entry,) = await list_tools(client)
        assert (entry["name"], entry["description"]) == ("p__t", "D.")
        assert entry["annotations"] == {"readOnlyHint": True}
        assert entry["outputSchema"] == {"type": "object"}


@pytest.mark.parametrize(
    ("tool", "problem"),
    [
        ({"command": []}, "expected the words of a command, as text or as a list"),
        ({"command": "'a"}, "cannot be split into words: No closing quotation"),
        ({"command": "ls | wc"}, "'|' needs a shell, and commands run without one"),
        (
            {"command": ["{a}"], "parameters": {"a": "string"}},
            "the first word is the program, which has to be fixed text",
        ),
        ({"command": ["ls", True]}, "the words of a command are text, found True"),
        ({"command": ["ls", ["-l"]]}, "an optional part, which is a list, needs a placeholder such as {name}"),
        ({"command": ["ls", {"if": "a"}]}, "expected a part such as {if: verbose, add: --verbose}"),
        ({"command": "ls {a}"}, "there is no parameter 'a'. Declare it, or write {{a}} for the text {a}"),
        ({"command": "ls", "cwd": "{a}"}, "there is no parameter 'a'"),
        ({"command": "ls", "parameters": {"a": "string"}}, "the parameter 'a' is not used"),
        (
            {"command": "ls {a}", "parameters": {"a": "text"}},
            "parameter 'a': expected one of the types string, integer",
        ),
        ({"command": "ls {a}", "parameters": {"a": 5}}, "parameter 'a': expected a type such as string"),
        ({"command": "ls", "parameters": {"a b": "string"}}, "'a b' is not a name of a parameter"),
        ({"command": "ls {a}", "parameters": {"a": "boolean"}}, "Write {if: a, add: --a}"),
        (
            {"command": "ls {a}", "parameters": {"type": "object", "properties": {"a": {}}}},
            "the parameter 'a' is optional, but the command always needs it",
        ),
        (
            {"command": ["ls", {"if": "a", "add": "{b}"}], "parameters": {"a": "boolean", "b": "string"}},
            "the parameter 'b' may be missing where `if` adds it",
        ),
        (
            {"command": "ls {a}", "parameters": {"type": "object", "properties": {"a": {}}, "required": 5}},
            "required: expected a list of parameters",
        ),
        (
            {"command": ["ls", "{a}/{b}"], "parameters": {"a": "path", "b": "path"}},
            "the paths 'a' and 'b' are in one word. Put each into a word of its own",
        ),
        *(
            (
                {"command": ["ls", word], "parameters": {"a": "path"}},
                "the path 'a' is a part of another path, which is not checked. Use `cwd` instead",
            )
            for word in ("notes/{a}", "--in=notes/{a}", "{a}/.config", "{a}.d/x=")
        ),
        ({"command": "ls", "allow_dash": ["a"]}, "allow_dash: there is no parameter 'a'"),
        ({"command": "ls", "output_schema": {"type": "object"}}, "output_schema requires output: json or json_lines"),
        ({"command": "ls", "errors": {"0": "no"}}, "errors: 0 is an exit code that means success"),
        ({"command": "ls", "shell": True}, "unknown key 'shell'"),
    ],
)
def test_a_mistake_is_an_error_with_file_and_place(tmp_path: Path, tool: Json, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build_bridge(tmp_path, {"t": tool})
    assert problem in str(caught.value)
    assert f"{tmp_path}/settings.json:1: sources[0].tools.t" in str(caught.value)
