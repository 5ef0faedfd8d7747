"""Listed: what one provider has, as entries, kept until it is asked again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio

from mcp_bridge.contracts.tool import ToolEntry
from mcp_bridge.runtime.redaction import Redactor
from mcp_bridge.runtime.third_party import call_method, described, passes
from mcp_bridge.xaibo.schemas import schema_of_tool
from mcp_bridge.xaibo.source.calls import Calls

PATIENCE = 30.0
"""How many seconds a provider may take to list its tools."""


class Listed:
    """The tools of one provider, called `label` in problems, which leave the secrets of its config out.

    A provider that has listed its tools once and then fails to keeps them.
    """

    def __init__(self, label: str, provider: Any, gone: Callable[[], None], redactor: Redactor | None = None) -> None:
        self.label = label
        self.entries: list[ToolEntry] = []
        self.problems: list[str] = []
        self._provider = provider
        self._gone = gone
        self._redactor = redactor or Redactor()
        self._known: list[dict[str, Any]] | None = None

    async def ask(self) -> None:
        """Have the provider list its tools. Never raises; what goes wrong is among the problems."""
        problem = f"did not list its tools within {PATIENCE:g} seconds"
        with anyio.move_on_after(PATIENCE):
            try:
                tools = list(await call_method(self._provider.list_tools))
            except BaseException as error:  # a stranger's; a cancelled listing passes
                if passes(error):
                    raise
                problem = f"cannot list its tools: {described(error)}"
            else:
                self._take(tools)
                return
        self.problems = [self._told(problem + ("; the ones it had are kept" if self.entries else ""))]

    def _take(self, tools: list[Any]) -> None:
        entries: dict[str, ToolEntry] = {}
        problems: list[str] = []
        for tool in tools:
            try:
                entry = self._entry(tool)
            except Exception as error:  # a stranger's property, or a tool without a name
                problems.append(self._told(f"lists a tool that cannot be read: {described(error)}"))
                continue
            if entries.setdefault(entry.name, entry) is not entry:
                problems.append(self._told(f"lists two tools named '{entry.name}'; the first is published"))
        if not tools:
            problems.append(self._told("lists no tools"))
        known = [entry.to_dict() for entry in entries.values()]
        if known != self._known:  # else the same entries, so that nobody hears of a change
            self.entries, self._known = list(entries.values()), known
        self.problems = problems

    def _entry(self, tool: Any) -> ToolEntry:
        name, parameters = _field(tool, "name"), _field(tool, "parameters")
        if not isinstance(name, str) or not name:
            raise ValueError(f"its name is {name!r}")
        parameters = parameters if isinstance(parameters, Mapping) else {}
        calls = Calls(self._provider, name, parameters, self._gone)
        return ToolEntry(name, str(_field(tool, "description") or "").strip(), calls.handler, schema_of_tool(tool))

    def _told(self, what: str) -> str:
        return self._redactor.text(f"provider '{self.label}' {what}")


def _field(tool: Any, name: str) -> Any:
    return tool.get(name) if isinstance(tool, Mapping) else getattr(tool, name, None)
