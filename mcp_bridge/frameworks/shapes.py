"""What the files of this room share: whose class an object is of, and what a schema of pydantic's says."""

from __future__ import annotations

from typing import Any

from mcp_bridge.contracts.errors import SourceError

Json = dict[str, Any]


def is_a(thing: object, package: str, *names: str) -> bool:
    """Whether an object's class, or one that it inherits from, is one of `names` of a package.

    Only classes are looked at, so nothing of the object runs, and one that answers to every name does not fit.
    """
    try:
        return any(kind.__name__ in names and package_of(kind) == package for kind in type(thing).__mro__)
    except Exception:  # a stranger's metaclass
        return False


def package_of(kind: type) -> str:
    """The package that a class is defined in: the first word of its module's name."""
    return str(kind.__module__).partition(".")[0]


def named(thing: Any, framework: str) -> str:
    """The tool's name. Raises SourceError where it has none."""
    name = getattr(thing, "name", None)
    if not isinstance(name, str) or not name:
        raise SourceError(f"a tool of {framework} ({type(thing).__name__}) has no name. Give it one")
    return name


def described(thing: Any) -> str:
    """The tool's description, as its author wrote it."""
    return str(getattr(thing, "description", None) or "")


def of_model(model: Any) -> Json:
    """The JSON Schema of a model of pydantic, 1 or 2, or of a schema that is one already.

    The model's own title and description are left out: the tool has them. Raises SourceError for anything else.
    """
    if isinstance(model, dict):
        schema = dict(model)
    elif hasattr(model, "model_json_schema"):
        schema = dict(model.model_json_schema())
    elif hasattr(model, "schema"):
        schema = dict(model.schema())
    else:
        raise SourceError(f"its arguments are described by {model!r}, which is neither a model nor a JSON Schema")
    return {key: value for key, value in schema.items() if key not in ("title", "description")}
