"""Bundles a document with the documents of its references, so that a start needs no other file and no network."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any
from urllib.parse import urldefrag, urljoin, urlsplit

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._sources.openapi.document import check_version, clean_name, number_name, parse_document, shorten

MAX_DOCUMENTS = 200
"""The maximum number of documents that one document may consist of."""
PARTS = "x-documents"
"""The key of the other documents in the bundled one."""
_NAMING = frozenset({"headers", "properties", "patternProperties", "$defs", "schemas", "responses", "parameters"})
"""The keys of mappings with names as keys, so that one with `x-` at its start is no extension."""
Load = Callable[[str], Awaitable[bytes]]


async def bundle_document(url: str, load: Load) -> dict[str, Any]:
    """Return the document at a URL (`https:` or `file:`) with the documents of its references. Raises SourceError.

    `load` returns the bytes at a URL. Other documents must have the same origin, or be below the folder of the first
    one. Relative URLs of servers become absolute.
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
        """Return a copy with references into the bundle. Extensions are not used, so they are not changed."""
        if isinstance(node, list):
            return [await self.rewrite(item, base) for item in node]
        if not isinstance(node, dict):
            return node
        copy = {}
        for key, item in node.items():
            is_extension = key.startswith("x-") and parent not in _NAMING
            copy[key] = item if is_extension else await self.rewrite(item, base, key)
        reference = node.get("$ref")
        if isinstance(reference, str):
            address, fragment = urldefrag(urljoin(base, reference))
            if address not in self.keys:
                await self._add_document(address)
            key = self.keys[address]
            copy["$ref"] = f"#/{PARTS}/{key}{fragment}" if key else f"#{fragment}"
        return copy

    async def _add_document(self, address: str) -> None:
        self._check_address(address)
        key = number_name(clean_name(PurePath(urlsplit(address).path).stem) or "document", self.parts)
        # References back to this document find its key while it is being rewritten.
        self.keys[address], self.parts[key] = key, None
        content = parse_document(await self.load(address))
        self.parts[key] = await self.rewrite(content, address)

    def _check_address(self, address: str) -> None:
        root, url = urlsplit(self.url), urlsplit(address)
        if (root.scheme, root.netloc) != (url.scheme, url.netloc):
            raise SourceError(f"it refers to another origin, which is not followed: {shorten(address)}")
        if root.scheme == "file" and not PurePath(url.path).is_relative_to(PurePath(root.path).parent):
            raise SourceError(f"it refers to a file outside of its folder, which is not read: {shorten(address)}")
        if len(self.keys) >= MAX_DOCUMENTS:
            raise SourceError(f"it consists of more than {MAX_DOCUMENTS} documents")


def _complete_servers(data: dict[str, Any], url: str) -> None:
    """Make the URLs of the document's servers absolute; without servers, it is the one of the document (4.8.5)."""
    servers = []
    for server in data.get("servers") or [{"url": "/"}]:
        if isinstance(server, dict):
            address = str(server.get("url") or "/")
            is_absolute = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://|\{", address)
            servers.append({**server, "url": address if is_absolute else urljoin(url, address)})
    data["servers"] = servers
