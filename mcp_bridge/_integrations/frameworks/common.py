"""Common functions of the adapters: class checks, names and schemas of tools, failures, and approvals."""

from __future__ import annotations

from typing import Any

from mcp_bridge._contracts.errors import ApprovalDeclined, Denied, MissingCapability, SourceError
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._json_schema.inlining import inline_definitions
from mcp_bridge._policies.approvals.shown_call import MAX_SHOWN, show_arguments

Json = dict[str, Any]


def is_a(value: object, package: str, *names: str) -> bool:
    """Return whether the class of an object, or one of its bases, has one of `names` and is in a package.

    Unlike `isinstance`, this needs no import of the package and runs no code of the object.
    """
    try:
        return any(base.__name__ in names and get_package(base) == package for base in type(value).__mro__)
    except Exception:
        # A third-party metaclass may raise anything.
        return False


def get_package(value_class: type) -> str:
    """Return the name of the top-level package of a class."""
    return str(value_class.__module__).partition(".")[0]


def get_tool_name(tool: Any, framework: str) -> str:
    """Return the name of a tool. Raises SourceError if it has none."""
    name = getattr(tool, "name", None)
    if not isinstance(name, str) or not name:
        raise SourceError(f"a tool of {framework} ({type(tool).__name__}) has no name. Give it one")
    return name


def get_description(tool: Any) -> str:
    return str(getattr(tool, "description", None) or "")


def to_json_schema(model: Any) -> Json:
    """Return the JSON Schema of a pydantic model (version 1 or 2) or of a mapping, with inlined definitions.

    Its title and description are left out, because they describe the model, not the tool. Raises SourceError for
    anything else.
    """
    if isinstance(model, dict):
        schema = dict(model)
    elif hasattr(model, "model_json_schema"):
        schema = dict(model.model_json_schema())
    elif hasattr(model, "schema"):
        schema = dict(model.schema())
    else:
        raise SourceError(f"its arguments are described by {model!r}, which is neither a model nor a JSON Schema")
    return inline_definitions({key: value for key, value in schema.items() if key not in ("title", "description")})


def make_failure(text: str, code: str | None = None) -> ToolResult:
    return ToolResult(success=False, error=text, code=code or "tool_error")


def list_validation_errors(error: Any) -> list[str]:
    """Return a line for each error in a pydantic ValidationError, without the values."""
    return [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()]


def find_published_name(ctx: RunningCall, handler: Any, name: str) -> str:
    """Return the published name of the tool with this handler, or `name` if it cannot be found.

    If the settings change the arguments of the tool, its entry has another handler. The tool is then found by its name
    in the source, unless several sources have a tool of this name.
    """
    published_names = []
    for entry in ctx.tools():
        if entry.handler == handler:
            return entry.name
        if entry.name_in_source == name:
            published_names.append(entry.name)
    return published_names[0] if len(published_names) == 1 else name


async def require_approval(ctx: RunningCall, name: str, arguments: Any) -> None:
    """Ask the user whether a call may run. In an agent of the framework, the run would stop here for the approval.

    Raises ApprovalDeclined if the user does not agree, Denied if the client cannot ask.
    """
    visible_arguments = show_arguments(dict(arguments or {}))
    if not visible_arguments.is_whole:
        raise Denied(
            f"The tool '{name}' runs only if the user agrees, and a question shows at most {MAX_SHOWN:,} characters of "
            "its arguments. It was not run. Send less in one call."
        )
    try:
        answer = await ctx.ask(
            f"The tool '{name}' runs only if you agree. Run it with these arguments?\n{visible_arguments.text}"
        )
    except MissingCapability as error:
        raise Denied(
            f"The tool '{name}' runs only if the user agrees, and this client cannot ask the user. It was not run. "
            "Use a client that declares elicitation."
        ) from error
    if not answer.accepted:
        raise ApprovalDeclined(f"The user did not agree to run '{name}'. It was not run.")
