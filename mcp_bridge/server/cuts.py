"""Cuts: an answer that is too large is cut, and its rest can be read page by page for a while."""

from __future__ import annotations

from collections.abc import Mapping
from secrets import token_urlsafe
from typing import Any

from mcp_bridge.contracts.content import ResourceLink
from mcp_bridge.contracts.errors import ResultTooLarge
from mcp_bridge.contracts.store import Store
from mcp_bridge.wire.content import block, text
from mcp_bridge.wire.tools import META
from mcp_bridge.wire.versions import STRUCTURED, carries

URI = "mcp-bridge://results/"
"""Where the pages are; the part that follows cannot be guessed."""
_KEY = "mcp-bridge/results/"


class Cuts:
    """At most `most` characters of text in one answer of a tool; the pages of its rest are kept for `ttl` seconds."""

    def __init__(self, store: Store, *, most: int, ttl: float) -> None:
        self._store = store
        self._most = most
        self._ttl = ttl

    async def fit(self, made: dict[str, Any], version: str, *, declared: bool) -> dict[str, Any]:
        """A tools/call result that is not too large.

        Structured content goes first. Where an output schema was `declared`, the result says that it failed: without
        the structured content it would break its word.
        """
        texts = [item["text"] for item in made["content"] if item.get("type") == "text"]
        if sum(map(len, texts)) <= self._most:
            return made
        whole = "\n".join(texts)
        others = [item for item in made["content"] if item.get("type") != "text"]
        shown = [text(whole[: self._most]), *await self._rest(whole, version)]
        cut = {key: value for key, value in made.items() if key != "structuredContent"}
        cut["content"] = [*shown, *others]
        if declared and not made.get("isError"):
            cut["isError"] = True
            if carries(version, STRUCTURED):
                cut["_meta"] = {**made.get("_meta", {}), f"{META}code": ResultTooLarge.code}
        return cut

    async def read(self, uri: str) -> Mapping[str, Any] | None:
        """One page as the contents of resources/read; None when there is none, or not any more."""
        page = await self._store.get(_KEY + uri.removeprefix(URI)) if uri.startswith(URI) else None
        return {"uri": uri, "mimeType": "text/plain", "text": page.decode()} if page is not None else None

    async def _rest(self, whole: str, version: str) -> list[dict[str, Any]]:
        """Keep the pages, and say where they are."""
        name, pages = token_urlsafe(16), range(self._most, len(whole), self._most)
        for number, start in enumerate(pages, start=2):
            page = whole[start : start + self._most].encode()
            await self._store.set(f"{_KEY}{name}/{number}", page, self._ttl)
        told = f"This answer was cut: {self._most} of its {len(whole)} characters are shown."
        if await self._store.get(f"{_KEY}{name}/2") is None:
            return [text(f"[{told} The rest was too large to be kept. Ask for a smaller part.]")]
        first, last = f"{URI}{name}/2", f"{URI}{name}/{len(pages) + 1}"
        where = f"Read the rest as resources, from {first} to {last}, within {self._ttl:g} seconds."
        link = ResourceLink(first, "the rest of the answer", mime_type="text/plain")
        links = [block(link, version)] if carries(version, STRUCTURED) else []
        return [text(f"[{told} {where}]"), *links]
