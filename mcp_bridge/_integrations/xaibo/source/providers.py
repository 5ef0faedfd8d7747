"""Makes providers from a class or a function, and unwraps some providers of xaibo."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._json_schema.secret_names import is_secret_key
from mcp_bridge._runtime.python_import import report_errors
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._runtime.signatures import get_signature

MAKE_TIMEOUT = 30.0
"""The timeout of making a provider, in seconds."""
_METHODS = ("list_tools", "execute_tool")
_XAIBO_TOOLS = "xaibo.primitives.modules.tools."


def is_provider(value: Any) -> bool:
    """Return whether an object lists and executes tools.

    An object with every attribute, such as a mock, is no provider.
    """
    try:
        has_methods = all(callable(getattr(value, name, None)) for name in _METHODS)
        return has_methods and not hasattr(value, "no_such_attribute_anywhere")
    except Exception:
        # A third-party __getattr__ may raise anything.
        return False


async def make_provider(target: Any, name: str, config: Mapping[str, Any]) -> Any:
    """Return `target` if it is a provider. If it is a class or a function, call it with `config` in a thread.

    Raises SourceError if it requires other arguments, fails, takes longer than `MAKE_TIMEOUT`, or returns something
    else than a provider.
    """
    with anyio.move_on_after(MAKE_TIMEOUT):
        value = await to_thread.run_sync(_make, target, name, config, abandon_on_cancel=True)
        if inspect.isawaitable(value):
            with _redact_errors(config), report_errors(f"provider '{name}' cannot be made"):
                value = await value
        if not is_provider(value):
            raise SourceError(
                f"'{name}' does not make a provider but {_describe(value)}: it has no {' and '.join(_METHODS)}"
            )
        return value
    raise SourceError(f"provider '{name}' was not made within {MAKE_TIMEOUT:g} seconds. Check what it waits for")


def _make(target: Any, name: str, config: Mapping[str, Any]) -> Any:
    if not isinstance(target, type) and is_provider(target):
        if config:
            hint = "Leave config out, or name the class"
            raise SourceError(f"provider '{name}' is an object and takes no config. {hint}")
        return target
    if not callable(target):
        raise SourceError(
            f"provider '{name}' is not a provider but {_describe(target)}: it has no {' and '.join(_METHODS)}"
        )
    arguments = _build_arguments(target, name, config)
    with _redact_errors(config), report_errors(f"provider '{name}' cannot be made"):
        return target(**arguments)


@contextmanager
def _redact_errors(config: Mapping[str, Any]) -> Iterator[None]:
    """Redact the secrets of a configuration in the errors of the block."""
    try:
        yield
    except SourceError as error:
        raise SourceError(make_redactor(config).redact_text(str(error))) from None


def make_redactor(config: Any) -> Redactor:
    """Make a redactor for the secrets of a configuration, by the names of its keys."""
    return Redactor(_find_secrets(config))


def _find_secrets(value: Any, *, is_secret: bool = False) -> Iterator[str]:
    """Yield all values below keys that name secrets, at any depth.

    These include numbers and short words, in contrast to `find_secret_values`.
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _find_secrets(item, is_secret=is_secret or is_secret_key(str(key)))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _find_secrets(item, is_secret=is_secret)
    elif is_secret and value is not None and not isinstance(value, bool):
        yield str(value)


def _build_arguments(target: Callable[..., Any], name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Build the keyword arguments as Xaibo does: only `config`. Raises SourceError if others are required."""
    try:
        parameters = list(get_signature(target).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    takes_config = False
    missing = []
    for parameter in parameters:
        if parameter.name == "config" or parameter.kind is parameter.VAR_KEYWORD:
            takes_config = True
        elif parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL:
            missing.append(f"'{parameter.name}'")
    if missing:
        raise SourceError(
            f"provider '{name}' needs {', '.join(missing)} besides config. Name the YAML of an agent that provides "
            "it (agent: path/to/agent.yaml), or a function that makes the provider"
        )
    if takes_config:
        return {"config": deepcopy(dict(config))}
    if config:
        raise SourceError(f"provider '{name}' takes no config. Leave config out")
    return {}


def _describe(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"a {type(value).__name__}"


def unwrap_provider(provider: Any, label: str) -> Iterator[tuple[str, Any]]:
    """Yield a provider, or the providers inside a ToolCollector of xaibo, each with its label.

    If several providers of a collector have tools with the same name, the collector uses the last one. The source
    publishes the first one, so they come in reverse order.
    """
    class_name = f"{type(provider).__module__}.{type(provider).__name__}"
    if class_name == f"{_XAIBO_TOOLS}tool_collector.ToolCollector":
        for number, inner_provider in reversed(list(enumerate(provider.tool_providers))):
            yield from unwrap_provider(inner_provider, f"{label}[{number}]")
    elif class_name == f"{_XAIBO_TOOLS}python_tool_provider.PythonToolProvider":
        yield label, _PythonTools(provider)
    else:
        yield label, provider


class _PythonTools:
    """Wraps a PythonToolProvider of xaibo: makes its methods synchronous, and reloads modules only after an edit.

    The methods of the original are `async` but never wait, so a function would block the event loop. `ProviderTools`
    runs synchronous methods in threads. The original reloads every module for each listing, and so discards the state
    of the functions.
    """

    def __init__(self, provider: Any) -> None:
        self._provider = provider
        self._stamps: dict[Path, int] = {}
        self._tools: list[Any] | None = None

    def list_tools(self) -> list[Any]:
        if self._tools is None or self._stamps != self._read_stamps():
            self._tools = _run_coroutine(self._provider.list_tools())
            self._stamps = self._read_stamps()
        return self._tools

    def execute_tool(self, tool_name: str, parameters: dict[str, Any]) -> Any:
        return _run_coroutine(self._provider.execute_tool(tool_name, parameters))

    def _read_stamps(self) -> dict[Path, int]:
        """Return the times of the last changes of all modules, in nanoseconds."""
        stamps = {}
        for name in self._provider.tool_packages:
            file = getattr(sys.modules.get(name), "__file__", None) if isinstance(name, str) else None
            if file:
                path = Path(file)
                stamps[path] = path.stat().st_mtime_ns if path.exists() else 0
        return stamps


def _run_coroutine(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never waits, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise RuntimeError(f"{coroutine!r} waits for something")
