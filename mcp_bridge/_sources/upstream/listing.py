"""Reads the lists of a server, and keeps the last entries of a list that fails."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import anyio

from mcp_bridge._contracts.jsonrpc import CONNECTION_CLOSED, METHOD_NOT_FOUND, REQUEST_TIMEOUT, RpcError
from mcp_bridge._contracts.server_info import ServerInfo
from mcp_bridge._contracts.source import Offer
from mcp_bridge._sources.upstream.entries import EntryBuilder
from mcp_bridge._sources.upstream.stored_catalogue import Catalogue
from mcp_bridge._upstream.session import UpstreamSession
from mcp_bridge._upstream.trust.screening import shorten_text

LIST_PATIENCE = 3.0
"""Seconds that the other lists may take once the server has returned one."""
_KINDS = {
    "tools": ("tools", "tools/list", "tools", EntryBuilder.build_tool),
    "resources": ("resources", "resources/list", "resources", EntryBuilder.build_resource),
    "templates": ("resources", "resources/templates/list", "resourceTemplates", EntryBuilder.build_template),
    "prompts": ("prompts", "prompts/list", "prompts", EntryBuilder.build_prompt),
}
"""By the member of an offer: the capability, the method, the member of its result, and what builds an entry."""
Listed = Sequence[Mapping[str, Any]]


class OfferReader:
    """Reads the lists of one server, again after each change. Entries of a list that has not changed stay the same.

    Attributes:
        offer: The last offer. For a list that failed, it has the entries of an earlier one.
        failure: The first failure of the last time; None if every list could be read.
    """

    def __init__(self) -> None:
        self._entries: dict[str, tuple[EntryBuilder, Listed, list[Any], list[str]]] = {}
        self._instructions = ""
        self.offer = Offer(partial=True)
        self.failure: RpcError | None = None

    async def read_offer(
        self, session: UpstreamSession, builder: EntryBuilder, timeout: float, *, wanted: Container[str] = _KINDS
    ) -> Offer:
        """Read all `wanted` lists at once. Raises RpcError if none can be read, or if the connection ends."""
        available_lists = (name for name, (capability, *_) in _KINDS.items() if capability in session.capabilities)
        names = [name for name in available_lists if name in wanted]
        failures: dict[str, RpcError] = {
            name: RpcError(REQUEST_TIMEOUT, f"{_KINDS[name][1]}: no response") for name in names
        }

        async def read_list(name: str) -> None:
            _, method, key, _ = _KINDS[name]
            try:
                items = await session.list_all_pages(method, key)
            except RpcError as error:
                failures[name] = RpcError(error.code, f"{method} failed: {error}")
                if error.code != METHOD_NOT_FOUND:
                    return
                # Templates, for example, are optional.
                items = []
            del failures[name]
            self._build_entries(name, items, builder)
            tasks.cancel_scope.deadline = min(tasks.cancel_scope.deadline, anyio.current_time() + LIST_PATIENCE)

        async with anyio.create_task_group() as tasks:
            tasks.cancel_scope.deadline = anyio.current_time() + timeout
            for name in names:
                tasks.start_soon(read_list, name)
        self.failure = next(iter(failures.values()), None)
        if self.failure is not None and (self.failure.code == CONNECTION_CLOSED or len(failures) == len(names)):
            raise self.failure
        self._entries = {name: read_list_entries for name, read_list_entries in self._entries.items() if name in names}
        self._instructions = session.instructions
        return self._combine_entries(
            [shorten_text(str(failure)) for failure in failures.values()], builder.forwarder.name
        )

    def restore_catalogue(self, catalogue: Catalogue, builder: EntryBuilder) -> Offer:
        """Use the stored lists of a server until they can be read again."""
        for name, items in catalogue.lists.items():
            if name in _KINDS:
                self._build_entries(name, items, builder)
        self._instructions = catalogue.instructions
        return self._combine_entries([], builder.forwarder.name)

    def build_catalogue(self) -> Catalogue:
        """Return the lists of the server, to be stored."""
        lists = {name: list(items) for name, (_, items, *_) in self._entries.items()}
        completes = any(builder.completes for builder, *_ in self._entries.values())
        return Catalogue(lists=lists, instructions=self._instructions, completes=completes)

    def _build_entries(self, name: str, items: Listed, builder: EntryBuilder) -> None:
        """Build the entries of a list, unless it is as it was: then clients need not be notified."""
        if name in self._entries and self._entries[name][:2] == (builder, items):
            return
        entries, problems = [], []
        for item in items:
            try:
                entries.append(_KINDS[name][3](builder, item))
            except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
                problems.append(f"an entry is not published, because it is invalid: {shorten_text(str(error))}")
        self._entries[name] = builder, items, entries, problems

    def _combine_entries(self, problems: list[str], server: str) -> Offer:
        entries = {name: list_entries for name, (_, _, list_entries, _) in self._entries.items()}
        self.offer = Offer(
            tools=entries.get("tools", ()),
            resources=entries.get("resources", ()),
            templates=entries.get("templates", ()),
            prompts=entries.get("prompts", ()),
            problems=[
                *problems,
                *(problem for *_, list_problems in self._entries.values() for problem in list_problems),
            ],
            server=_describe_instructions(server, self._instructions),
            partial=True,
        )
        return self.offer


def _describe_instructions(server: str, text: str) -> ServerInfo | None:
    """Return the instructions of a server under its name: they reach clients beside those of others."""
    return ServerInfo(instructions=f"Instructions of the server '{server}':\n{text.strip()}") if text.strip() else None
