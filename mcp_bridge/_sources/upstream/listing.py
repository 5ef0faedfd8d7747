"""Reads the lists of a server, and keeps what is known of those that fail."""

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
        offer: What was read last. For a list that failed then, it has the entries that were known before.
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
        offered = (kind for kind, (capability, *_) in _KINDS.items() if capability in session.capabilities)
        kinds = [kind for kind in offered if kind in wanted]
        failures: dict[str, RpcError] = {
            kind: RpcError(REQUEST_TIMEOUT, f"{_KINDS[kind][1]}: no response") for kind in kinds
        }

        async def read_list(kind: str) -> None:
            _, method, key, _ = _KINDS[kind]
            try:
                listed = await session.list_all_pages(method, key)
            except RpcError as error:
                failures[kind] = RpcError(error.code, f"{method} failed: {error}")
                if error.code != METHOD_NOT_FOUND:
                    return
                listed = []  # templates, for example, are optional
            del failures[kind]
            self._build_entries(kind, listed, builder)
            tasks.cancel_scope.deadline = min(tasks.cancel_scope.deadline, anyio.current_time() + LIST_PATIENCE)

        async with anyio.create_task_group() as tasks:
            tasks.cancel_scope.deadline = anyio.current_time() + timeout
            for kind in kinds:
                tasks.start_soon(read_list, kind)
        self.failure = next(iter(failures.values()), None)
        if self.failure is not None and (self.failure.code == CONNECTION_CLOSED or len(failures) == len(kinds)):
            raise self.failure
        self._entries = {kind: built for kind, built in self._entries.items() if kind in kinds}
        self._instructions = session.instructions
        return self._combine_entries(
            [shorten_text(str(failure)) for failure in failures.values()], builder.forwarder.name
        )

    def restore_catalogue(self, catalogue: Catalogue, builder: EntryBuilder) -> Offer:
        """Use what a server has listed earlier, until it can be read again."""
        for kind, listed in catalogue.lists.items():
            if kind in _KINDS:
                self._build_entries(kind, listed, builder)
        self._instructions = catalogue.instructions
        return self._combine_entries([], builder.forwarder.name)

    def build_catalogue(self) -> Catalogue:
        """Return what the server has listed, to be stored."""
        lists = {kind: list(listed) for kind, (_, listed, *_) in self._entries.items()}
        completes = any(builder.completes for builder, *_ in self._entries.values())
        return Catalogue(lists=lists, instructions=self._instructions, completes=completes)

    def _build_entries(self, kind: str, listed: Listed, builder: EntryBuilder) -> None:
        """Build the entries of a list, unless it is as it was: then clients need not be notified."""
        if kind in self._entries and self._entries[kind][:2] == (builder, listed):
            return
        entries, problems = [], []
        for item in listed:
            try:
                entries.append(_KINDS[kind][3](builder, item))
            except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
                problems.append(f"an entry is not published, because it is invalid: {shorten_text(str(error))}")
        self._entries[kind] = builder, listed, entries, problems

    def _combine_entries(self, problems: list[str], server: str) -> Offer:
        entries = {kind: built for kind, (_, _, built, _) in self._entries.items()}
        self.offer = Offer(
            tools=entries.get("tools", ()),
            resources=entries.get("resources", ()),
            templates=entries.get("templates", ()),
            prompts=entries.get("prompts", ()),
            problems=[*problems, *(problem for *_, found in self._entries.values() for problem in found)],
            server=_describe_instructions(server, self._instructions),
            partial=True,
        )
        return self.offer


def _describe_instructions(server: str, text: str) -> ServerInfo | None:
    """Return the instructions of a server under its name: they reach clients beside those of others."""
    return ServerInfo(instructions=f"Instructions of the server '{server}':\n{text.strip()}") if text.strip() else None
