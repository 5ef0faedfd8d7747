"""Describes a click or typer program as JSON. Its source runs in the interpreter of that program: `-c SOURCE ...`.

It imports only the standard library and the program. Arguments: the path of a script, or `-m` and a module, and the
words of a subcommand. It executes the definitions of the program, but not the statement that starts it.
"""

import ast
import importlib
import importlib.util
import json
import os
import sys
import types
import typing
from collections.abc import Iterator, Sequence
from typing import Any

_TYPES = {"int": "integer", "float": "float", "bool": "boolean", "Path": "path"}
_GUARDS = ("__name__ == '__main__'", "'__main__' == __name__")
_MAIN = "__mp_main__"
"""The name that multiprocessing gives to a main module that it imports without running it."""


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


def find_source(words: "Sequence[str]") -> "tuple[str, str]":
    """Return the file that Python runs for a script or `-m MODULE`, and the package of its relative imports."""
    if words[0] != "-m":
        sys.path[0] = os.path.dirname(os.path.realpath(words[0]))
        return words[0], ""
    spec = importlib.util.find_spec(words[1])
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(words[1] + ".__main__")
    if spec is None or spec.origin is None:
        raise ImportError(words[1])
    return spec.origin, spec.parent or ""


def execute_definitions(path: str, package: str) -> "tuple[dict[str, Any], list[ast.Call]]":
    """Execute a file except for what starts its program. Return its names, and the calls that start the program.

    These are the calls below `if __name__ == "__main__"`, or else in the last statement.
    """
    with open(path, "rb") as file:
        tree = ast.parse(file.read(), path)
    body: list[ast.stmt] = []
    start: list[ast.stmt] = []
    for statement in tree.body:
        if not isinstance(statement, ast.If) or ast.unparse(statement.test) not in _GUARDS:
            body.append(statement)
            continue
        for inner in statement.body:
            (body if isinstance(inner, (ast.Import, ast.ImportFrom)) else start).append(inner)
    if not start and body and isinstance(body[-1], (ast.Expr, ast.Raise)):
        start = [body.pop()]
    tree.body = body
    module = types.ModuleType(_MAIN)
    sys.modules[_MAIN] = module
    module.__dict__.update(__file__=path, __package__=package)
    exec(compile(tree, path, "exec"), module.__dict__)  # noqa: S102 - the user's own program
    calls = [node for statement in start for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return module.__dict__, calls


def find_started_command(names: "dict[str, Any]", calls: "Sequence[ast.Call]") -> Any:
    """Return the click command that calls start, such as `cli()`, `app.main()` or `typer.run(function)`."""
    for call in calls:
        expressions = [call.func]
        if isinstance(call.func, ast.Attribute):
            expressions.insert(0, call.func.value)
        for expression in expressions:
            if not isinstance(expression, (ast.Name, ast.Attribute)):
                continue
            value = eval(compile(ast.Expression(expression), "program", "eval"), names)  # noqa: S307 - a name
            if getattr(value, "__module__", "") == "typer.main" and getattr(value, "__name__", "") == "run":
                app = sys.modules["typer"].Typer(add_completion=False)
                app.command()(eval(compile(ast.Expression(call.args[0]), "program", "eval"), names))  # noqa: S307
                value = app
            command = find_command(value)
            if command is not None:
                return command
    return None


def main() -> None:
    """Print the description, or nothing if the program is no click program."""
    out = os.dup(1)
    os.dup2(2, 1)  # what the program prints when its definitions are executed
    words = sys.argv[1:]
    used = 2 if words[0] == "-m" else 1
    path, package = find_source(words)
    # A program that starts in the middle of its file shows its help instead of doing its work.
    sys.argv = [path, "--help"]
    command = find_started_command(*execute_definitions(path, package))
    described: dict[str, Any]
    try:
        described = {"commands": list(describe_commands(command, [], words[used:]))} if command is not None else {}
    except LookupError as error:
        described = {"problem": str(error)}
    os.write(out, json.dumps(described).encode())


if __name__ == "__main__":
    main()
