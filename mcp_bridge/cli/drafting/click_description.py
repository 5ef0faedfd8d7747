"""Describes a click or typer program as JSON. Its source runs in the interpreter of that program: `-c SOURCE ...`.

It imports only the standard library and the program. Arguments: module, attribute, and the words of a subcommand.
"""

import importlib
import json
import os
import sys
import typing
from collections.abc import Iterator, Sequence
from typing import Any

_TYPES = {"int": "integer", "float": "float", "bool": "boolean", "Path": "path"}


def find_command(value: Any) -> Any:
    """Return the click command of an object: a command, a typer app, or a function that runs one."""
    if hasattr(value, "make_context") and hasattr(value, "params"):
        return value
    if type(value).__name__ == "Typer" and type(value).__module__.startswith("typer"):
        return importlib.import_module("typer.main").get_command(value)
    code = getattr(value, "__code__", None)
    named = [value.__globals__.get(name) for name in code.co_names] if code is not None else []
    found = [command for command in (find_command(each) for each in named if not hasattr(each, "__code__")) if command]
    return found[0] if len(found) == 1 else None


def describe_type(parameter: Any) -> "tuple[str, list[str]]":
    """Return the name of the type of a parameter, and its choices."""
    kind = getattr(parameter, "type", None)
    if kind is not None:
        return getattr(kind, "name", "text"), [
            str(getattr(each, "value", each)) for each in getattr(kind, "choices", ())
        ]
    annotation = getattr(getattr(parameter, "type_descriptor", None), "annotation", str)  # typer without click
    if typing.get_origin(annotation) is typing.Literal:
        return "choice", [str(each) for each in typing.get_args(annotation)]
    for each in (annotation, *typing.get_args(annotation)):
        if hasattr(each, "__members__"):
            return "choice", [str(member.value) for member in each]
        if isinstance(each, type) and each is not type(None):
            return _TYPES.get(each.__name__, "text"), []
    return "text", []


def describe_parameter(parameter: Any) -> "dict[str, Any]":
    """Return what a draft needs to know about an option or argument."""
    kind, choices = describe_type(parameter)
    is_flag = bool(getattr(parameter, "is_flag", False) or getattr(parameter, "count", False))
    return {
        "name": parameter.name,
        "options": list(parameter.opts) if parameter.param_type_name == "option" else [],
        "negations": list(parameter.secondary_opts),
        "type": "flag" if is_flag else kind,
        "choices": choices,
        "help": getattr(parameter, "help", None) or "",
        "nargs": parameter.nargs,
        "multiple": bool(getattr(parameter, "multiple", False)),
        "required": bool(parameter.required),
        "hidden": bool(getattr(parameter, "hidden", False) or parameter.is_eager),
    }


def describe_commands(command: Any, words: "Sequence[str]", wanted: "Sequence[str]") -> "Iterator[dict[str, Any]]":
    """Yield the command, or those of a group that `wanted` words lead to. Raises LookupError."""
    context = command.context_class(command, info_name=words[-1] if words else "program")
    if not hasattr(command, "list_commands"):
        if wanted:
            raise LookupError(f"it has no commands, such as '{wanted[0]}'")
        parameters = [describe_parameter(each) for each in command.params]
        yield {"words": words, "help": command.help or "", "parameters": parameters}
        return
    names = [wanted[0]] if wanted else command.list_commands(context)
    for name in names:
        inner = command.get_command(context, name)
        if inner is None:
            raise LookupError(f"it has no command '{name}', only {', '.join(command.list_commands(context))}")
        if wanted or not inner.hidden:
            yield from describe_commands(inner, [*words, name], wanted[1:])


def main() -> None:
    """Print the description, or nothing if the program is no click program."""
    out = os.dup(1)
    os.dup2(2, 1)  # what the program prints when it is imported
    module, attribute, *wanted = sys.argv[1:]
    sys.argv = [module]
    value = importlib.import_module(module)
    for name in attribute.split("."):
        value = getattr(value, name)
    command = find_command(value)
    described: dict[str, Any]
    try:
        described = {"commands": list(describe_commands(command, [], wanted))} if command is not None else {}
    except LookupError as error:
        described = {"problem": str(error)}
    os.write(out, json.dumps(described).encode())


if __name__ == "__main__":
    main()
