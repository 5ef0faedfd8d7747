"""What `module:attribute` in the settings stands for: an object, or what a function without arguments makes."""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import anyio

from mcp_bridge.contracts.errors import SourceError
from mcp_bridge.runtime.python_import import load_module
from mcp_bridge.runtime.third_party import call_method, described, passes


def resolve(reference: str, directory: Path) -> object:
    """The object at `module:attribute`, where the attribute may be a path with dots; `directory` is importable.

    Raises SourceError saying which half is wrong.
    """
    name, _, path = reference.partition(":")
    if not name or not path:
        raise SourceError(f"'{reference}': write it as module:attribute")
    thing: Any = load_module(name, directory)
    where = f"module '{name}'"
    for part in path.split("."):
        try:
            thing = getattr(thing, part)
        except AttributeError:
            near = get_close_matches(part, [each for each in dir(thing) if not each.startswith("_")], n=1)
            hint = f"Did you mean '{near[0]}'?" if near else "Mend the name"
            raise SourceError(f"'{reference}': {where} has no '{part}'. {hint}") from None
        except BaseException as error:  # a stranger's property
            if passes(error):
                raise
            raise SourceError(f"'{reference}': '{part}' of {where} cannot be read: {described(error)}") from error
        where = f"'{part}'"
    return thing


def is_factory(thing: object) -> bool:
    """Whether this is a function, or a class, that can be called without arguments."""
    if not callable(thing):
        return False
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return False
    free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return all(item.default is not item.empty or item.kind in free for item in parameters)


async def made_by(factory: Any, reference: str, patience: float | None) -> object:
    """What a function without arguments makes: in a thread, or on the loop where it is asynchronous.

    Raises SourceError when it fails or takes longer than `patience` seconds.
    """
    try:
        with anyio.move_on_after(patience):
            return await call_method(factory)
    except BaseException as error:
        if passes(error):
            raise
        raise SourceError(f"'{reference}' failed when it was called: {described(error)}") from error
    late = f"'{reference}' has made nothing within {patience:g} seconds"
    raise SourceError(f"{late}. Have it do less, or raise open_timeout")
