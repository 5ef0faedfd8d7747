"""Reads the lists of a server (`tools/list` and others) and builds the entries of its offer.

`OfferReader` is used by `UpstreamSource` after each connection and each change. It keeps the entries of a list that
cannot be read this time, so one failing list does not remove tools that still work.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import anyio

from mcp_bridge._contracts.jsonrpc import CONNECTION_CLOSED, METHOD_NOT_FOUND, REQUEST_TIMEOUT, RpcError
from mcp_bridge._contracts.server_info import ServerInfo
from mcp_bridge._contracts.source import Offer
from mcp_bridge._sources.upstream.entries import EntryBuilder
from mcp_bridge._sources.upstream.stored_catalogue import Catalogue
from mcp_bridge._upstream.session import UpstreamSession
from mcp_bridge._upstream.trust.screening import shorten_text

LIST_TIMEOUT = 3.0
"""Seconds that the other lists may take once the server has returned one."""

ListItems = Sequence[Mapping[str, Any]]


class _ListMethod(NamedTuple):
    """How a list is read.

    Attributes:
        capability: The capability of servers that have the list.
        name: The method.
        key: The member of the result with the items.
        build_entry: Builds an entry from an item. Raises an error for an invalid one.
    """

    capability: str
    name: str
    key: str
    build_entry: Callable[[EntryBuilder, Mapping[str, Any]], Any]


class _ReadList(NamedTuple):
    """A list as the server has sent it, with the entries that `builder` has built from it."""

    builder: EntryBuilder
    items: ListItems
    entries: Sequence[Any]
    problems: Sequence[str]


_LIST_METHODS = {
    "tools": _ListMethod("tools", "tools/list", "tools", EntryBuilder.build_tool),
    "resources": _ListMethod("resources", "resources/list", "resources", EntryBuilder.build_resource),
    "templates": _ListMethod("resources", "resources/templates/list", "resourceTemplates", EntryBuilder.build_template),
    "prompts": _ListMethod("prompts", "prompts/list", "prompts", EntryBuilder.build_prompt),
}
"""How each list is read, by the name of its member in an Offer."""


class OfferReader:
    """Reads the lists of one server, and reads them again after each change.

    Attributes:
        offer: The last offer. If a list could not be read, it has the entries of the last time it could.
        failure: The first failure of the last `read_offer`; None if every list could be read.
    """

    def __init__(self) -> None:
        self._lists: dict[str, _ReadList] = {}
        self._instructions = ""
        self.offer = Offer(partial=True)
        self.failure: RpcError | None = None

    async def read_offer(
        self, session: UpstreamSession, builder: EntryBuilder, timeout: float, *, names: Collection[str] = _LIST_METHODS
    ) -> Offer:
        """Read the lists with these names concurrently, and return the offer.

        Raises RpcError if none of them can be read, or if the connection ends.
        """
        names = [name for name in names if _LIST_METHODS[name].capability in session.capabilities]
        # Each list counts as a failure until it has been read.
        failures = {name: RpcError(REQUEST_TIMEOUT, f"{_LIST_METHODS[name].name}: no response") for name in names}

        async def read_list(name: str) -> None:
            method = _LIST_METHODS[name]
            try:
                items = await session.list_all_pages(method.name, method.key)
            except RpcError as error:
                failures[name] = RpcError(error.code, f"{method.name} failed: {error}")
                if error.code != METHOD_NOT_FOUND:
                    return
                # A server may have resources, for example, but no method for templates.
                items = []
            del failures[name]
            self._build_entries(name, items, builder)
            # A client must not wait much longer for a list that the server may never return.
            tasks.cancel_scope.deadline = min(tasks.cancel_scope.deadline, anyio.current_time() + LIST_TIMEOUT)

        async with anyio.create_task_group() as tasks:
            tasks.cancel_scope.deadline = anyio.current_time() + timeout
            for name in names:
                tasks.start_soon(read_list, name)
        self.failure = next(iter(failures.values()), None)
        if self.failure is not None and (self.failure.code == CONNECTION_CLOSED or len(failures) == len(names)):
            raise self.failure
        self._lists = {name: self._lists[name] for name in names if name in self._lists}
        self._instructions = session.instructions
        problems = [shorten_text(str(failure)) for failure in failures.values()]
        return self._combine_entries(problems, builder.forwarder.name)

    def restore_catalogue(self, catalogue: Catalogue, builder: EntryBuilder) -> Offer:
        """Use the stored lists of a server until they can be read again."""
        for name, items in catalogue.lists.items():
            # A catalogue of another version of mcp-bridge may have other lists.
            if name in _LIST_METHODS:
                self._build_entries(name, items, builder)
        self._instructions = catalogue.instructions
        return self._combine_entries([], builder.forwarder.name)

    def build_catalogue(self) -> Catalogue:
        """Return the lists of the server, to be stored."""
        lists = {name: list(read_list.items) for name, read_list in self._lists.items()}
        completes = any(read_list.builder.completes for read_list in self._lists.values())
        return Catalogue(lists=lists, instructions=self._instructions, completes=completes)

    def _build_entries(self, name: str, items: ListItems, builder: EntryBuilder) -> None:
        """Build the entries of a list, unless the list has not changed.

        Entries with new handlers would differ from the published ones, and clients would be notified of a change.
        """
        last = self._lists.get(name)
        if last is not None and last.builder == builder and last.items == items:
            return
        entries, problems = [], []
        for item in items:
            try:
                entries.append(_LIST_METHODS[name].build_entry(builder, item))
            except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
                problems.append(f"an entry is not published, because it is invalid: {shorten_text(str(error))}")
        self._lists[name] = _ReadList(builder, items, entries, problems)

    def _combine_entries(self, problems: Sequence[str], server: str) -> Offer:
        entries = {name: read_list.entries for name, read_list in self._lists.items()}
        entry_problems = chain.from_iterable(read_list.problems for read_list in self._lists.values())
        instructions = self._instructions.strip()
        server_info = None
        if instructions:
            # Clients get the instructions of all servers together.
            server_info = ServerInfo(instructions=f"Instructions of the server '{server}':\n{instructions}")
        self.offer = Offer(
            tools=entries.get("tools", ()),
            resources=entries.get("resources", ()),
            templates=entries.get("templates", ()),
            prompts=entries.get("prompts", ()),
            problems=[*problems, *entry_problems],
            server=server_info,
            partial=True,
        )
        return self.offer
