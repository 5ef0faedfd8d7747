"""Making a provider from its class, or from a function, with nothing but its config."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import anyio
from anyio import to_thread

from mcp_bridge.contracts.errors import SourceError
from mcp_bridge.runtime.redaction import Redactor
from mcp_bridge.schema.secrets import names_secret
from mcp_bridge.xaibo.source.importing import report_errors

PATIENCE = 30.0
"""How many seconds a provider may take to be made."""
_METHODS = ("list_tools", "execute_tool")


def is_provider(thing: Any) -> bool:
    """Whether something lists and executes tools; what answers to every name does not count."""
    try:
        has = all(callable(getattr(thing, name, None)) for name in _METHODS)
        return has and not hasattr(thing, "no_such_attribute_anywhere")
    except Exception:  # a stranger's __getattr__
        return False


async def made(found: Any, name: str, config: Mapping[str, Any]) -> Any:
    """A provider: `found` itself where it is one, else what the class or function makes of `config`, in a thread.

    Raises SourceError for what needs more than config, for what fails or takes longer than `PATIENCE`, and for what
    makes no provider.
    """
    with anyio.move_on_after(PATIENCE):
        thing = await to_thread.run_sync(_make, found, name, config, abandon_on_cancel=True)
        if inspect.isawaitable(thing):
            with _hidden(config), report_errors(f"provider '{name}' cannot be made"):
                thing = await thing
        if not is_provider(thing):
            raise SourceError(f"'{name}' makes no provider but {_kind(thing)}: it has no {' and '.join(_METHODS)}")
        return thing
    raise SourceError(f"provider '{name}' was not made within {PATIENCE:g} seconds. See what it waits for")


def _make(found: Any, name: str, config: Mapping[str, Any]) -> Any:
    if not isinstance(found, type) and is_provider(found):
        if config:
            raise SourceError(f"provider '{name}' is made already and takes no config. Leave it out, or name its class")
        return found
    if not callable(found):
        raise SourceError(f"provider '{name}' is no provider but {_kind(found)}: it has no {' and '.join(_METHODS)}")
    arguments = _arguments(found, name, config)
    with _hidden(config), report_errors(f"provider '{name}' cannot be made"):
        return found(**arguments)


@contextmanager
def _hidden(config: Mapping[str, Any]) -> Iterator[None]:
    """What goes wrong in the block is told without the secrets of the configuration."""
    try:
        yield
    except SourceError as error:
        raise SourceError(hiding(config).text(str(error))) from None


def hiding(config: Any) -> Redactor:
    """What leaves the secrets of a configuration out of text: everything that its keys call one."""
    return Redactor(_secrets(config))


def _secrets(value: Any, *, secret: bool = False) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _secrets(item, secret=secret or names_secret(str(key)))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _secrets(item, secret=secret)
    elif secret and value is not None and not isinstance(value, bool):
        yield str(value)


def _arguments(found: Callable[..., Any], name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """What to make it with, as Xaibo does: `config` by its name. Raises SourceError for what else it needs."""
    try:
        parameters = list(inspect.signature(found).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    takes = any(item.name == "config" or item.kind is item.VAR_KEYWORD for item in parameters)
    needed = [
        f"'{item.name}'"
        for item in parameters
        if item.name != "config"
        and item.default is item.empty
        and item.kind not in (item.VAR_KEYWORD, item.VAR_POSITIONAL)
    ]
    if needed:
        raise SourceError(
            f"provider '{name}' needs {', '.join(needed)} besides config. Name the YAML of an agent that has what it "
            "needs (agent: path/to/agent.yaml), or a function that makes it"
        )
    if config and not takes:
        raise SourceError(f"provider '{name}' takes no config. Leave it out")
    return {"config": deepcopy(dict(config))} if takes else {}


def _kind(thing: Any) -> str:
    return f"the class {thing.__name__}" if isinstance(thing, type) else f"a {type(thing).__name__}"
