"""Headers with credentials that may change while a connection lasts."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

import httpx2

from mcp_bridge._contracts.errors import SourceError

logger = logging.getLogger("mcp_bridge.upstream")


class HeaderAuth(httpx2.Auth):
    """Sends headers. If the server rejects them with status 401, `read` returns the current ones.

    If these differ, the request is sent again.
    """

    def __init__(self, headers: Mapping[str, str], read_headers: Callable[[], Awaitable[Mapping[str, str]]]) -> None:
        self._headers = headers
        self._read = read_headers

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        old_headers = self._headers
        request.headers.update(old_headers)
        response = yield request
        if response.status_code != 401:
            return
        try:
            self._headers = await self._read()
        except SourceError as error:
            logger.warning("the credentials for %s cannot be read again: %s", request.url.host, error)
        if self._headers != old_headers:
            request.headers.update(self._headers)
            yield request
