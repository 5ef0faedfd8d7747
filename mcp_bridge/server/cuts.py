"""Cuts: an answer that is too large is cut, and its rest can be read page by page for a while."""

from __future__ import annotations

from collections.abc import Mapping
from secrets import token_urlsafe
from typing import Any

import orjson

from mcp_bridge.contracts.content import ResourceLink
from mcp_bridge.contracts.errors import ResultTooLarge
from mcp_bridge.contracts.store import Store
from mcp_bridge.runtime.redaction import Redactor
from mcp_bridge.wire.content import block, text
from mcp_bridge.wire.tools import META
from mcp_bridge.wire.versions import STRUCTURED, carries

URI = "mcp-bridge://results/"
"""Where the pages are; the part that follows cannot be guessed."""
_KEY = "mcp-bridge/results/"
CONTENT = 16 * 1024 * 1024
BLOCKS = 1000
"""The most blocks of one answer; texts beyond that are joined, others left out."""
_PLAIN = frozenset({"type", "text"})


class Cuts:
    """How large one answer of a tool may be; the pages of the rest of its text are kept for `ttl` seconds.

    At most `most` characters of text, `content` bytes of all else, as JSON, and `BLOCKS` blocks of either. Secrets are
    left out before the cut: half of one in each of two pages would be found in neither.
    """

    def __init__(
        self, store: Store, *, most: int, content: int = CONTENT, ttl: float, redactor: Redactor | None = None
    ) -> None:
        self._store = store
        self._most = most
        self._content = content
        self._ttl = ttl
        self._redactor = redactor or Redactor()

    async def fit(self, made: dict[str, Any], version: str, *, declared: bool) -> dict[str, Any]:
        """A tools/call result that is not too large.

        Structured content goes first. Where an output schema was `declared`, the result says that it failed: without
        the structured content it would break its word.
        """
        kept = self._without_excess(made)
        lost = "structuredContent" in made and "structuredContent" not in kept
        texts = [item["text"] for item in kept["content"] if item.get("type") == "text"]
        if sum(map(len, texts)) > self._most:
            whole = self._redactor.text("\n".join(texts))
            kept = _with_texts(kept, [text(whole[: self._most]), *await self._rest(whole, version)])
            kept.pop("structuredContent", None)
            lost = True
        elif len(texts) > BLOCKS:
            kept = _with_texts(kept, [text("\n".join(texts))])
        if lost and declared and not made.get("isError"):
            kept["isError"] = True
            if carries(version, STRUCTURED):
                kept["_meta"] = {**kept.get("_meta", {}), f"{META}code": ResultTooLarge.code}
        return kept

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

    def _without_excess(self, made: dict[str, Any]) -> dict[str, Any]:
        """The result without what is no text and has no room any more; it says how much that is."""
        room = Room(self._content)
        kept = {key: value for key, value in made.items() if key != "_meta" or room.has(value)}
        kept.pop("structuredContent", None)
        kept["content"] = [item for item in map(room.cut, made["content"]) if item is not None]
        if "structuredContent" in made and room.has(made["structuredContent"]):
            kept["structuredContent"] = made["structuredContent"]
        if room.refused:
            told = f"[This answer was cut: {room.refused} of its parts that are no text were left out."
            kept["content"].append(text(f"{told} They have more than {self._content} bytes, or are too many.]"))
        return kept


class Room:
    """So many bytes and `BLOCKS` blocks; `refused` counts what there was no room for."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._blocks = BLOCKS
        self.refused = 0

    def has(self, value: Any, *, blocks: int = 0) -> bool:
        """Whether there is room for a value; if so it is taken."""
        size = _size(value)
        if size > self._size or blocks > self._blocks:
            self.refused += 1
            return False
        self._size -= size
        self._blocks -= blocks
        return True

    def cut(self, item: dict[str, Any]) -> dict[str, Any] | None:
        """A block as far as there is room for it; its text is no matter here."""
        if item.get("type") != "text":
            return item if self.has(item, blocks=1) else None
        beside = {key: value for key, value in item.items() if key not in _PLAIN}
        return item if not beside or self.has(beside) else text(item["text"])


def _with_texts(made: dict[str, Any], texts: list[dict[str, Any]]) -> dict[str, Any]:
    """The result with other texts, which come first."""
    others = [item for item in made["content"] if item.get("type") != "text"]
    return {**made, "content": [*texts, *others]}


def _size(value: Any) -> int:
    """How many bytes it has as JSON; what cannot be written becomes an error later."""
    try:
        return len(orjson.dumps(value))
    except (TypeError, RecursionError):
        return 0
