"""xaibo's own PythonToolProvider and ToolCollector, known by their classes, without what goes wrong in them."""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

_TOOLS = "xaibo.primitives.modules.tools."


def without_faults(provider: Any, label: str) -> Iterator[tuple[str, Any]]:
    """The provider, or what a collector has collected, each with what to call it.

    Of a collector's providers that have a tool of one name the last counts, so they come last first.
    """
    kind = f"{type(provider).__module__}.{type(provider).__name__}"
    if kind == f"{_TOOLS}tool_collector.ToolCollector":
        collected = list(enumerate(provider.tool_providers))
        for number, each in reversed(collected):
            raw = vars(each)["_obj"] if "_obj" in getattr(each, "__dict__", {}) else each  # an exchange's Proxy
            yield from without_faults(raw, f"{label}[{number}]")
    elif kind == f"{_TOOLS}python_tool_provider.PythonToolProvider":
        yield label, PythonTools(provider)
    else:
        yield label, provider


class PythonTools:
    """A PythonToolProvider whose functions run in a thread, and whose modules are read again only after an edit.

    Its own methods are `async` and never wait, so that a function would hold up the event loop; and each listing
    reloads every module, which forgets what the functions have kept there.
    """

    def __init__(self, provider: Any) -> None:
        self._provider = provider
        self._stamps: dict[Path, int] = {}
        self._listed: list[Any] | None = None

    def list_tools(self) -> list[Any]:
        """The tools; those of the last time where no module of them has been edited since."""
        if self._listed is None or self._stamps != self._now():
            self._listed = _driven(self._provider.list_tools())
            self._stamps = self._now()
        return self._listed

    def execute_tool(self, tool_name: str, parameters: dict[str, Any]) -> Any:
        """Run one; the result of an async function is still to be awaited."""
        return _driven(self._provider.execute_tool(tool_name, parameters))

    def _now(self) -> dict[Path, int]:
        """When each module was written last, in nanoseconds; those that are not there yet may come."""
        modules = [sys.modules.get(name) for name in self._provider.tool_packages if isinstance(name, str)]
        paths = [Path(file) for module in modules if (file := getattr(module, "__file__", None))]
        return {path: path.stat().st_mtime_ns if path.exists() else 0 for path in paths}


def _driven(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine that waits for nothing comes to, without a loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise RuntimeError(f"{coroutine!r} waits for something")
