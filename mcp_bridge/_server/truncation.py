"""ResultTruncator: truncates results that are too large. For a while, clients can read the rest of a text as resources.

The pages of the rest are in a store, under keys that contain the principal of the call. So a client cannot read the
pages of another one, even if it knows their URIs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mcp_bridge._contracts.errors import ResultTooLarge
from mcp_bridge._contracts.store import Store
from mcp_bridge._protocol.wire.protocol_versions import STRUCTURED, has_feature
from mcp_bridge._protocol.wire.tools import META
from mcp_bridge._protocol.wire.values import make_text_block
from mcp_bridge._runtime.exact_json import dump_json
from mcp_bridge._runtime.redaction import Redactor

URI = "mcp-bridge://results/"
"""The start of the URIs of pages. The rest of a URI cannot be guessed."""
_KEY = "mcp-bridge/results/"
CONTENT_LIMIT = 16 * 1024 * 1024
"""The default for the maximum number of bytes of everything but text."""
BLOCKS = 1000
"""The maximum number of text blocks, and of other blocks, in a result. Beyond it, texts are joined, others dropped."""
_TEXT_KEYS = frozenset({"type", "text"})
"""The keys of a text block without annotations and metadata."""


class ResultTruncator:
    """Limits the size of results, and stores the rest of their text for `ttl` seconds.

    A result has at most `text_limit` characters of text, `content_limit` bytes of everything else as JSON, and `BLOCKS`
    blocks of each. Secrets are redacted before a text is split, because half a secret would not be recognized.
    """

    def __init__(
        self,
        get_store: Callable[[], Store],
        *,
        text_limit: int,
        content_limit: int = CONTENT_LIMIT,
        ttl: float,
        redactor: Redactor | None = None,
    ) -> None:
        self._get_store = get_store
        self._text_limit = text_limit
        self._content_limit = content_limit
        self._ttl = ttl
        self._redactor = redactor or Redactor()

    async def truncate(
        self,
        result: dict[str, Any],
        version: str,
        *,
        declared: bool,
        output_size: int | None = None,
        principal: str | None = None,
    ) -> dict[str, Any]:
        """Return a tools/call result within the limits. Structured content is dropped before text is truncated.

        Args:
            result: The result on the wire.
            version: The protocol version of the client.
            declared: Whether the tool has an output schema. Without its structured content, the result would violate
                the schema, so it becomes an error.
            output_size: The size of the structured content in bytes, if it is known.
            principal: The client that may read the rest.
        """
        smaller_result = self._remove_excess(result, output_size)
        is_incomplete = "structuredContent" in result and "structuredContent" not in smaller_result
        texts = [item["text"] for item in smaller_result["content"] if item.get("type") == "text"]
        if sum(map(len, texts)) > self._text_limit:
            full_text = self._redactor.redact_text("\n".join(texts))
            text_blocks = [make_text_block(full_text[: self._text_limit])]
            text_blocks += await self._store_rest(full_text, version, _make_prefix(principal))
            smaller_result = _replace_texts(smaller_result, text_blocks)
            smaller_result.pop("structuredContent", None)
            is_incomplete = True
        elif len(texts) > BLOCKS:
            smaller_result = _replace_texts(smaller_result, [make_text_block("\n".join(texts))])
        if is_incomplete and declared and not result.get("isError"):
            smaller_result["isError"] = True
            if has_feature(version, STRUCTURED):
                smaller_result["_meta"] = {**smaller_result.get("_meta", {}), f"{META}code": ResultTooLarge.code}
        return smaller_result

    def is_small(self, result: dict[str, Any], output_size: int | None = None) -> bool:
        """Return whether a result is certainly within the limits, without measuring anything."""
        content = result["content"]
        if "_meta" in result or len(content) > BLOCKS:
            return False
        if "structuredContent" in result and (output_size is None or output_size > self._content_limit):
            return False
        length = 0
        for item in content:
            if len(item) != len(_TEXT_KEYS) or item["type"] != "text":
                return False
            length += len(item["text"])
        return length <= self._text_limit

    async def read_page(self, uri: str, principal: str | None = None) -> Mapping[str, Any] | None:
        """Return one page as an item of `contents` of resources/read, or None if this principal has no such page."""
        if not uri.startswith(URI):
            return None
        page = await self._get_store().get(_make_prefix(principal) + uri.removeprefix(URI))
        if page is None:
            return None
        return {"uri": uri, "mimeType": "text/plain", "text": page.decode()}

    async def _store_rest(self, full_text: str, version: str, prefix: str) -> list[dict[str, Any]]:
        """Store the pages after the first one, and return blocks that name them."""
        from secrets import token_urlsafe

        store = self._get_store()
        name = token_urlsafe(16)
        starts = range(self._text_limit, len(full_text), self._text_limit)
        for number, start in enumerate(starts, start=2):
            page = full_text[start : start + self._text_limit].encode()
            await store.set(f"{prefix}{name}/{number}", page, self._ttl)
        notice = f"This result was truncated: it shows {self._text_limit} of {len(full_text)} characters."
        # A store has limits, and may have dropped the first pages for the later ones.
        if await store.get(f"{prefix}{name}/2") is None:
            return [make_text_block(f"[{notice} The rest was too large to be stored. Ask for a smaller part.]")]
        first, last = f"{URI}{name}/2", f"{URI}{name}/{len(starts) + 1}"
        advice = f"Read the rest as resources, from {first} to {last}, within {self._ttl:g} seconds."
        from mcp_bridge._contracts.content import ResourceLink
        from mcp_bridge._protocol.wire.content import render_block

        link = ResourceLink(first, "the rest of the result", mime_type="text/plain")
        blocks = [make_text_block(f"[{notice} {advice}]")]
        if has_feature(version, STRUCTURED):
            blocks.append(render_block(link, version))
        return blocks

    def _remove_excess(self, result: dict[str, Any], output_size: int | None) -> dict[str, Any]:
        """Return the result without the parts, other than text, that exceed the limits, and a notice about them."""
        budget = SizeBudget(self._content_limit)
        smaller_result = {key: value for key, value in result.items() if key != "_meta" or budget.spend(value)}
        smaller_result.pop("structuredContent", None)
        smaller_result["content"] = [item for item in map(budget.fit_block, result["content"]) if item is not None]
        if "structuredContent" in result and budget.spend(result["structuredContent"], size=output_size):
            smaller_result["structuredContent"] = result["structuredContent"]
        if budget.dropped:
            notice = f"[This result was truncated: {budget.dropped} parts other than text were left out,"
            smaller_result["content"].append(
                make_text_block(f"{notice} because they exceed {self._content_limit} bytes or {BLOCKS} blocks.]")
            )
        return smaller_result


def _make_prefix(principal: str | None) -> str:
    """Return the start of the keys of a principal's pages. URIs, which models see, do not contain it."""
    if principal is None:
        return f"{_KEY}anonymous/"
    # Most servers never need this module.
    from hashlib import sha256

    return f"{_KEY}{sha256(principal.encode(errors='surrogatepass')).hexdigest()[:32]}/"


class SizeBudget:
    """A budget of bytes and of `BLOCKS` blocks. `dropped` counts the parts that exceeded it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._blocks = BLOCKS
        self.dropped = 0

    def spend(self, value: Any, *, size: int | None = None, blocks: int = 0) -> bool:
        """Reduce the budget by the size of a value. Return False, and count the value, if it does not fit."""
        size = _measure(value) if size is None else size
        if size > self._size or blocks > self._blocks:
            self.dropped += 1
            return False
        self._size -= size
        self._blocks -= blocks
        return True

    def fit_block(self, item: dict[str, Any]) -> dict[str, Any] | None:
        """Return the part of a block that fits, or None. Text itself does not count, but its annotations do."""
        if item.get("type") != "text":
            return item if self.spend(item, blocks=1) else None
        extras = {key: value for key, value in item.items() if key not in _TEXT_KEYS}
        return item if not extras or self.spend(extras) else make_text_block(item["text"])


def _replace_texts(result: dict[str, Any], texts: list[dict[str, Any]]) -> dict[str, Any]:
    other_blocks = [item for item in result["content"] if item.get("type") != "text"]
    return {**result, "content": [*texts, *other_blocks]}


def _measure(value: Any) -> int:
    """Return the size of a value as JSON in bytes, or 0 if JSON cannot express it, so it fails later."""
    try:
        return len(dump_json(value))
    except (TypeError, RecursionError):
        return 0
