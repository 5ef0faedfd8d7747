"""HttpClient sends requests to allowed addresses, with limits for time and size.

It resolves a host name once for each connection, checks the addresses and connects to one of them, while TLS verifies
the name. So no second resolution can lead elsewhere. Proxies of the environment are not used, because they would
resolve the name again.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from functools import partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from ipaddress import ip_address
from typing import Any

import anyio
import httpcore2
import httpx2

from mcp_bridge._runtime.http_client.addresses import AddressPolicy
from mcp_bridge._runtime.http_client.requests import AddressRejected, ApiRequest, HttpResponse, ServerUnreachable

CONNECT_TIMEOUT = 10.0
"""Seconds for resolving a name, and again for connecting. The time limit of the call covers the whole request."""
MAX_REDIRECTS = 5
MAX_IDLE = 100
"""The maximum number of idle connections. Connections in use need no limit, because calls in flight have one."""
_REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_SAFE_METHODS = frozenset({"GET", "HEAD"})
_FOREIGN_HEADERS = frozenset({"accept", "user-agent"})
"""The only headers that a redirect to another origin keeps."""


class HttpClient:
    """Sends requests. It belongs to one event loop, and stores no cookies, because all callers share it.

    Args:
        policy: Decides which addresses are allowed.
        max_body: The maximum size of a response in bytes. A longer one is truncated.
        tls: The TLS settings; by default those of httpx2.
    """

    def __init__(self, policy: AddressPolicy, *, max_body: int, tls: ssl.SSLContext | None = None) -> None:
        self._max_body = max_body
        self._client = httpx2.AsyncClient(
            transport=CheckedTransport(policy, tls or httpx2.create_ssl_context()),
            timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT),
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            headers={"user-agent": "mcp-bridge"},
            trust_env=False,
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def fetch_response(self, request: ApiRequest) -> HttpResponse:
        """Send a request and return the response. Redirects of GET and HEAD are followed.

        Raises AddressRejected and ServerUnreachable.
        """
        with _convert_errors():
            sent_request = self._encode_request(request)
            for _ in range(MAX_REDIRECTS):
                response = await self._exchange(sent_request)
                location = response.headers.get("location")
                is_redirect = response.status in _REDIRECT_STATUSES and sent_request.method in _SAFE_METHODS
                if not is_redirect or location is None:
                    return response
                sent_request = self._follow_redirect(sent_request, location)
        raise ServerUnreachable(f"the server redirects more than {MAX_REDIRECTS} times")

    def _encode_request(self, request: ApiRequest) -> httpx2.Request:
        """Return the request in the form of httpx2, with its secrets."""
        url = request.url
        for query in (request.query, request.secret_query):
            if query:
                separator = "&" if "?" in url else "?"
                url = f"{url}{separator}{query}"
        files = [(part.name, (part.filename, part.content, part.media_type)) for part in request.parts]
        headers = httpx2.Headers(request.headers)
        # The names of httpx2.Headers ignore case, so a secret header replaces any other spelling of its name.
        headers.update(request.secret_headers)
        return self._client.build_request(
            request.method, url, headers=headers, content=request.content, files=files or None
        )

    def _follow_redirect(self, request: httpx2.Request, location: str) -> httpx2.Request:
        """Return the request to the target of a redirect. Another origin gets neither credentials nor arguments."""
        url = request.url.join(location)
        if url.scheme not in ("http", "https") or (request.url.scheme == "https" and url.scheme != "https"):
            raise ServerUnreachable("the server redirects from https to an address without encryption")
        if (url.scheme, url.host, url.port) == (request.url.scheme, request.url.host, request.url.port):
            headers = {name: value for name, value in request.headers.items() if name != "host"}
            return self._client.build_request(request.method, url, headers=headers, content=request.content)
        headers = {name: value for name, value in request.headers.items() if name in _FOREIGN_HEADERS}
        return self._client.build_request(request.method, url, headers=headers)

    async def _exchange(self, request: httpx2.Request) -> HttpResponse:
        """Send a request and read its response, up to the maximum size."""
        response = await self._client.send(request, stream=True, follow_redirects=False)
        async with aclosing(response):
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > self._max_body:
                    break
        return HttpResponse(
            response.status_code,
            response.reason_phrase,
            {name.lower(): value for name, value in response.headers.items()},
            bytes(body[: self._max_body]),
            str(request.url.copy_with(query=None, fragment=None)),
            is_truncated=len(body) > self._max_body,
        )


@contextmanager
def _convert_errors() -> Iterator[None]:
    """Convert the errors of httpx2 to those of this client, without URLs in their texts."""
    try:
        yield
    except httpx2.InvalidURL:
        raise ServerUnreachable("the URL is not valid") from None
    except httpx2.TimeoutException as error:
        raise ServerUnreachable(f"the server does not respond in time ({type(error).__name__})") from error
    except (httpx2.HTTPError, httpx2.StreamError) as error:
        raise ServerUnreachable(f"the server cannot be reached: {str(error) or type(error).__name__}") from error


class PoolTransport(httpx2.AsyncBaseTransport):
    """Sends requests through connection pools, one for each scheme."""

    def __init__(self, pools: Mapping[str, httpcore2.AsyncConnectionPool]) -> None:
        self._pools = pools

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        pool = self._pools.get(request.url.scheme)
        if pool is None:
            raise httpx2.UnsupportedProtocol(f"'{request.url.scheme}' is not supported, only http and https")
        assert isinstance(request.stream, httpx2.AsyncByteStream)
        url = request.url
        with _convert_core_errors():
            response = await pool.handle_async_request(
                httpcore2.Request(
                    request.method,
                    httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
        return httpx2.Response(
            response.status, headers=response.headers, stream=_Body(response.stream), extensions=response.extensions
        )

    async def aclose(self) -> None:
        for pool in self._pools.values():
            await pool.aclose()


class CheckedTransport(PoolTransport):
    """Connects only to addresses of the policy, which allows more of them with encryption than without."""

    def __init__(self, policy: AddressPolicy, tls: ssl.SSLContext) -> None:
        pools = {
            scheme: httpcore2.AsyncConnectionPool(
                ssl_context=tls,
                max_connections=None,
                max_keepalive_connections=MAX_IDLE,
                keepalive_expiry=30.0,
                network_backend=_CheckedBackend(policy, encrypted=scheme == "https"),
            )
            for scheme in ("http", "https")
        }
        super().__init__(pools)


class _Body(httpx2.AsyncByteStream):
    """The body of a response of httpcore2."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _convert_core_errors():
            async for chunk in self._stream:
                yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


@contextmanager
def _convert_core_errors() -> Iterator[None]:
    """Convert an error of httpcore2 to the error of httpx2 with the same name."""
    try:
        yield
    except _CORE_ERRORS as error:
        raise getattr(httpx2, type(error).__name__, httpx2.TransportError)(str(error)) from error


_CORE_ERRORS = (
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.UnsupportedProtocol,
)


class _CheckedBackend(httpcore2.AsyncNetworkBackend):
    """Connects to the allowed addresses of a host, one after another until one accepts the connection."""

    def __init__(self, policy: AddressPolicy, *, encrypted: bool) -> None:
        self._policy = policy
        self._encrypted = encrypted
        self._backend = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Resolve the host, check its addresses and connect. Raises AddressRejected."""
        addresses = await resolve_host(host, port, timeout)
        allowed = [text for text in addresses if self._policy.is_allowed(ip_address(text), encrypted=self._encrypted)]
        if not allowed:
            if any(self._policy.is_allowed(ip_address(text), encrypted=True) for text in addresses):
                problem = f"'{host}' is only reached without encryption (http). Use https, or allow its address"
            else:
                listing = ", ".join(addresses)
                problem = f"the addresses of '{host}' ({listing}) are not public, and the settings do not allow them"
            raise AddressRejected(problem)
        connect = partial(
            self._backend.connect_tcp,
            port=port,
            timeout=timeout,
            local_address=local_address,
            socket_options=socket_options,
        )
        for address in allowed[:-1]:
            with suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                return await connect(address)
        # The error of the last address is raised.
        return await connect(allowed[-1])

    async def connect_unix_socket(self, *args: Any, **kwargs: Any) -> httpcore2.AsyncNetworkStream:
        raise httpcore2.UnsupportedProtocol("Unix sockets are not supported")

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


async def resolve_host(host: str, port: int, timeout: float | None) -> Sequence[str]:
    """Return the addresses of a host, without duplicates."""
    try:
        with anyio.fail_after(timeout):
            entries = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except TimeoutError:
        raise httpcore2.ConnectTimeout(f"the name '{host}' could not be resolved in time") from None
    except (OSError, UnicodeError) as error:
        raise httpcore2.ConnectError(f"the name '{host}' cannot be resolved") from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))
