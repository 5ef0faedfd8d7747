"""Addresses of servers: how messages show them, and which redirects are followed with credentials."""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit

import httpx2

from mcp_bridge._upstream.trust.screening import shorten_text


def format_address(url: str) -> str:
    """Return an address without its credentials and its query, which may contain secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"


def find_own_redirect(response: httpx2.Response) -> str | None:
    """Return where a response redirects the same request on the same server (RFC 9110, 15.4.8 and 15.4.9), or None."""
    if response.status_code not in (307, 308):
        return None
    try:
        target = httpx2.URL(_read_location(response))
    except (ValueError, httpx2.InvalidURL):
        return None
    return str(target) if _get_origin(target) == _get_origin(response.request.url) else None


def describe_redirect(response: httpx2.Response) -> str:
    """Return why a redirect is not followed. Credentials would be sent to the other address, too."""
    try:
        place = shorten_text(format_address(_read_location(response)))
    except ValueError:
        place = "an invalid address"
    return (
        f"the server redirects to {place} (HTTP status {response.status_code}), which is not followed. "
        "If you trust that address, write it in the settings"
    )


def _read_location(response: httpx2.Response) -> str:
    """Return the address in the Location header. Raises ValueError."""
    return urljoin(str(response.request.url), response.headers.get("location", ""))


def _get_origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
