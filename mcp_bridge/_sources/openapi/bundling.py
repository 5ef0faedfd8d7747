"""Bundles a document with the documents it refers to, so a start needs no other file and no network.

`mcp-bridge import openapi` stores the bundle: the first document, with the others below the key `x-documents`. A
reference to `pets.yaml#/Pet` becomes `#/x-documents/pets/Pet`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any
from urllib.parse import urldefrag, urljoin

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._runtime.urls import split_url
from mcp_bridge._sources.openapi.document import check_version, clean_name, number_name, parse_document, shorten

MAX_DOCUMENTS = 200
"""The maximum number of documents of a bundle."""
PARTS = "x-documents"
"""The key of the other documents in the bundle."""
_MAPPINGS_BY_NAME = frozenset(
    {"headers", "properties", "patternProperties", "$defs", "schemas", "responses", "parameters"}
)
"""The keys of mappings from names to objects. A name in them that begins with `x-` is not an extension of OpenAPI."""
Load = Callable[[str], Awaitable[bytes]]
"""Returns the bytes at a URL."""


async def bundle_document(url: str, load: Load) -> dict[str, Any]:
    """Return the document at a URL (`https:` or `file:`) with the documents it refers to. Raises SourceError.

    Other documents must have the same origin, and files must be in the folder of the first one, or below it. Relative
    URLs of servers become absolute, because the bundle has no URL.
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
    """A bundle while it is built.

    Attributes:
        keys: The keys of documents in `parts` by their URLs; an empty text for the first document.
        parts: The other documents.
    """

    url: str
    load: Load
    keys: dict[str, str] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)

    async def rewrite(self, node: Any, base: str, parent: str = "") -> Any:
        """Return a copy of a part of the document at `base`, with references into the bundle. `parent` is its key.

        Extensions (`x-...`) stay as they are, because nothing uses them.
        """
        if isinstance(node, list):
            return [await self.rewrite(item, base) for item in node]
        if not isinstance(node, dict):
            return node
        copy = {}
        for key, item in node.items():
            is_extension = key.startswith("x-") and parent not in _MAPPINGS_BY_NAME
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
        key = number_name(clean_name(PurePath(split_url(address).path).stem) or "document", self.parts)
        # The key is reserved first, because documents may refer to each other in circles.
        self.keys[address] = key
        self.parts[key] = None
        content = parse_document(await self.load(address))
        self.parts[key] = await self.rewrite(content, address)

    def _check_address(self, address: str) -> None:
        root, url = split_url(self.url), split_url(address)
        if (root.scheme, root.netloc) != (url.scheme, url.netloc):
            raise SourceError(f"it refers to another origin, which is not followed: {shorten(address)}")
        if root.scheme == "file" and not PurePath(url.path).is_relative_to(PurePath(root.path).parent):
            raise SourceError(f"it refers to a file outside of its folder, which is not read: {shorten(address)}")
        if len(self.keys) >= MAX_DOCUMENTS:
            raise SourceError(f"it consists of more than {MAX_DOCUMENTS} documents")


def _complete_servers(data: dict[str, Any], url: str) -> None:
    """Make the URLs of the document's servers absolute. The default server is `/` (OpenAPI 3.1.1, "OpenAPI Object")."""
    servers = []
    for server in data.get("servers") or [{"url": "/"}]:
        if isinstance(server, dict):
            address = str(server.get("url") or "/")
            is_absolute = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://|\{", address)
            servers.append({**server, "url": address if is_absolute else urljoin(url, address)})
    data["servers"] = servers
