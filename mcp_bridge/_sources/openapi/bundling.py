"""Makes one document of a document and those that it refers to, so that a start needs no other file and no network."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any
from urllib.parse import urldefrag, urljoin, urlsplit

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._sources.openapi.document import check_version, parse_document, shorten

MAX_DOCUMENTS = 200
"""The maximum number of documents that one document may consist of."""
PARTS = "x-documents"
"""The key of the bundled document under which the other ones are."""
_NAMING = frozenset({"headers", "properties", "patternProperties", "$defs", "schemas", "responses", "parameters"})
"""The keys of mappings whose keys are names, so that one that begins with `x-` is no extension."""
Load = Callable[[str], Awaitable[bytes]]


async def bundle_document(url: str, load: Load) -> dict[str, Any]:
    """Return the document at a URL (`https:` or `file:`) with all that it refers to. `load` returns the bytes at a URL.

    Other documents must have the same origin, or be below the folder of the first one. URLs of servers that are
    relative become absolute. Raises SourceError.
    """
    bundle = _Bundle(url, load)
    root = dict(check_version(parse_document(await load(url))))
    bundle.keys[url] = ""
    data: dict[str, Any] = await bundle.rewrite(root, url)
    if bundle.parts:
        data[PARTS] = bundle.parts
    if not url.startswith("file:"):
        _complete_servers(data, url)
    return data


@dataclass(slots=True)
class _Bundle:
    url: str
    load: Load
    keys: dict[str, str] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)

    async def rewrite(self, node: Any, base: str, parent: str = "") -> Any:
        """Return a copy in which references lead into the bundle, except those in extensions, which are not used."""
        if isinstance(node, list):
            return [await self.rewrite(item, base) for item in node]
        if not isinstance(node, dict):
            return node
        copy = {
            key: item if key.startswith("x-") and parent not in _NAMING else await self.rewrite(item, base, key)
            for key, item in node.items()
        }
        if isinstance(reference := node.get("$ref"), str):
            copy["$ref"] = await self._rewrite_reference(reference, base)
        return copy

    async def _rewrite_reference(self, reference: str, base: str) -> str:
        address, fragment = urldefrag(urljoin(base, reference))
        key = self.keys[address] if address in self.keys else await self._add_document(address)
        return f"#/{PARTS}/{key}{fragment}" if key else f"#{fragment}"

    async def _add_document(self, address: str) -> str:
        """Add a document and return its key."""
        self._check_address(address)
        stem = re.sub(r"[^A-Za-z0-9_.-]+", "_", PurePath(urlsplit(address).path).stem) or "document"
        key, number = stem, 1
        while key in self.parts:
            number += 1
            key = f"{stem}_{number}"
        self.keys[address], self.parts[key] = key, None
        content = parse_document(await self.load(address))
        self.parts[key] = await self.rewrite(content, address)
        return key

    def _check_address(self, address: str) -> None:
        first, other = urlsplit(self.url), urlsplit(address)
        if (first.scheme, first.netloc) != (other.scheme, other.netloc):
            raise SourceError(f"it refers to another origin, which is not followed: {shorten(address)}")
        if first.scheme == "file" and not PurePath(other.path).is_relative_to(PurePath(first.path).parent):
            raise SourceError(f"it refers to a file outside of its folder, which is not read: {shorten(address)}")
        if len(self.keys) >= MAX_DOCUMENTS:
            raise SourceError(f"it consists of more than {MAX_DOCUMENTS} documents")


def _complete_servers(data: dict[str, Any], url: str) -> None:
    """Make the URLs of the document's servers absolute; without servers, it is the one of the document (4.8.5)."""
    servers = data.get("servers") or [{"url": "/"}]
    data["servers"] = [
        {**server, "url": _complete_url(str(server.get("url") or "/"), url)}
        for server in servers
        if isinstance(server, dict)
    ]


def _complete_url(server: str, url: str) -> str:
    return server if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://|\{", server) else urljoin(url, server)
