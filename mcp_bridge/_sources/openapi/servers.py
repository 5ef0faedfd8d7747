"""Finds the URL of the server of an operation, in the settings or in the document."""

from __future__ import annotations

import re

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._json_schema.walking import get_list, get_mapping
from mcp_bridge._runtime.urls import split_url
from mcp_bridge._sources.openapi.document import VARIABLE, ApiDocument, Json, as_mapping, shorten
from mcp_bridge._sources.openapi.operations import Operation


def find_server_url(server: str, document: ApiDocument, operation: Operation) -> str:
    """Return the URL of an operation's server, without a slash at its end. Raises SourceError.

    `server` is the URL in the settings. If it is not empty, it replaces all servers of the document. Otherwise the
    first server of the operation is used, or else of its path, or else of the document.
    """
    if server:
        return check_url(server)
    for owner in (operation.content, operation.item, document.data):
        servers = get_list(owner, "servers")
        if not servers:
            continue
        url = _fill_variables(document.resolve_node(servers[0]))
        if url.startswith("/") and not url.startswith("//"):
            raise SourceError(
                f"the document names only a path as its server ('{shorten(url)}'), but no host. "
                f"Set `server` to the URL of the API, such as https://api.example.com{shorten(url)}"
            )
        return check_url(url)
    raise SourceError("the document names no server. Set `server` to its URL")


def _fill_variables(server: Json) -> str:
    variables = get_mapping(server, "variables")

    def get_default(match: re.Match[str]) -> str:
        value = as_mapping(variables.get(match[1])).get("default")
        if value is None:
            raise SourceError(f"the variable '{match[1]}' of the server has no value. Set `server` to the whole URL")
        return str(value)

    return VARIABLE.sub(get_default, str(server.get("url") or ""))


def check_url(url: str) -> str:
    """Return a URL without a slash at its end. Raises SourceError if requests cannot be sent to it."""
    parts = split_url(url)
    has_credentials = parts.username is not None or parts.password is not None
    is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    if not is_valid or parts.query or parts.fragment:
        raise SourceError(f"'{shorten(url)}' is not the URL of a server. Set `server` to its URL, with https")
    if has_credentials:
        raise SourceError("the URL of the server must not have credentials. Write them in `auth` or `headers`")
    return url.rstrip("/")
