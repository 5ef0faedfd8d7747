"""The URL of the server of an operation: that of the settings, or the first one of the operation, path or document."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._sources.openapi.document import ApiDocument, Json, as_mapping, shorten
from mcp_bridge._sources.openapi.operations import Operation

_VARIABLE = re.compile(r"\{([^{}]+)\}")


class ServerChoice(NamedTuple):
    """How servers are chosen: `url` replaces all servers of a document."""

    url: str = ""

    def find_url(self, document: ApiDocument, operation: Operation) -> str:
        """Return the URL of an operation's server, without a slash at its end. Raises SourceError."""
        if self.url:
            return check_url(self.url)
        for owner in (operation.content, operation.item, document.data):
            servers = owner.get("servers")
            if isinstance(servers, list) and servers:
                url = self._fill(document.resolve_node(servers[0]))
                if url.startswith("/") and not url.startswith("//"):
                    example = f"https://api.example.com{shorten(url)}"
                    raise SourceError(
                        f"the document names only a path as its server ('{shorten(url)}'), but no host. "
                        f"Set `server` to the URL of the API, such as {example}"
                    )
                return check_url(url)
        raise SourceError("the document names no server. Set `server` to its URL")

    @staticmethod
    def _fill(server: Json) -> str:
        declared = as_mapping(server.get("variables"))

        def replace(match: re.Match[str]) -> str:
            name = match[1]
            variable = as_mapping(declared.get(name))
            value = variable.get("default")
            if value is None:
                raise SourceError(f"the variable '{name}' of the server has no value. Set `server` to the whole URL")
            return str(value)

        return _VARIABLE.sub(replace, str(server.get("url") or ""))


def check_url(url: str) -> str:
    """Return a URL without a slash at its end. Raises SourceError if requests cannot be sent to it."""
    try:
        parts = urlsplit(url)
        has_credentials = parts.username is not None or parts.password is not None
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = has_credentials = False
    if not is_valid or parts.query or parts.fragment:
        raise SourceError(f"'{shorten(url)}' is not the URL of a server. Set `server` to its URL, with https")
    if has_credentials:
        raise SourceError("the URL of the server must not have credentials. Write them in `auth` or `headers`")
    return url.rstrip("/")
