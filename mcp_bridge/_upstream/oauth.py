"""Signs in to servers over HTTP with OAuth, by the client of the MCP SDK, and stores, sends and refreshes tokens.

The command `mcp-bridge login` calls `sign_in`: the user signs in at the authorization server, and the tokens are
stored. Later, `BearerAuth` sends the access token with each request, and refreshes it without the user. The SDK's
client does this while it sends a request, so both send some request to the server, and ignore the response.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from functools import partial
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies, proxy_bypass

import anyio
import httpx2
from anyio import to_thread

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._runtime.http_client.addresses import AddressPolicy, find_networks
from mcp_bridge._runtime.http_client.client import CheckedTransport, resolve_host
from mcp_bridge._runtime.http_client.requests import AddressRejected, HttpClientError
from mcp_bridge._upstream.trust.token_store import TokenStore

if TYPE_CHECKING:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken

logger = logging.getLogger("mcp_bridge.upstream")

MARGIN = 30.0
"""Seconds before its expiry at which a token is refreshed."""
TIMEOUT = 20.0
"""Seconds that one request to the server or its authorization server may take."""
_PING = {"jsonrpc": "2.0", "id": 0, "method": "ping"}
_HEADERS = {"accept": "application/json, text/event-stream"}
_LOOPBACK = "http://127.0.0.1/callback"
"""The redirect URI that the SDK's client requires, but does not use to refresh tokens."""


class TokenStorage:
    """The storage of the SDK's client, `provider`. It also stores the expiry of tokens, and where to refresh them.

    `place` is the file with the tokens, or None if they are in the keyring.
    """

    def __init__(self, store: TokenStore, data: dict[str, Any], use_keyring: bool | None) -> None:
        self.provider: OAuthClientProvider | None = None
        self.place: Path | None = None
        self._store = store
        self._data = data
        self._use_keyring = use_keyring

    async def get_tokens(self) -> OAuthToken | None:
        from mcp.shared.auth import OAuthToken

        if "tokens" not in self._data:
            return None
        return OAuthToken.model_validate(self._data["tokens"])

    async def set_tokens(self, tokens: OAuthToken) -> None:
        assert self.provider is not None
        context = self.provider.context
        if context.oauth_metadata is not None:
            self._data["metadata"] = context.oauth_metadata.model_dump(mode="json")
        if context.protected_resource_metadata is not None:
            self._data["resource"] = context.protected_resource_metadata.model_dump(mode="json")
        self._data["tokens"] = tokens.model_dump(mode="json")
        self._data["expires"] = context.token_expiry_time
        write = partial(self._store.write_tokens, dict(self._data), use_keyring=self._use_keyring)
        self.place = await to_thread.run_sync(write, abandon_on_cancel=True)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        from mcp.shared.auth import OAuthClientInformationFull

        if "client" not in self._data:
            return None
        return OAuthClientInformationFull.model_validate(self._data["client"])

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._data["client"] = client_info.model_dump(mode="json")


class BearerAuth(httpx2.Auth):
    """Sends the token of a server with each request, and refreshes it before it expires or when it is rejected."""

    def __init__(self, server: str, url: str, transport: str = "http") -> None:
        self.add_secrets: Callable[[Iterable[str]], None] = lambda secrets: None
        self._server = server
        self._transport = transport
        self._store = TokenStore(url)
        self._data: dict[str, Any] = {}
        self._lock = anyio.Lock()

    async def load_tokens(self) -> None:
        """Read the tokens. Raises SourceError if the user has not signed in, or if the extra `oauth` is missing."""
        _check_extra()
        self._use_data(await to_thread.run_sync(self._store.read_tokens, abandon_on_cancel=True))
        if not self._token:
            raise SourceError(f"sign in first, with: mcp-bridge login {self._server}")

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        expires = self._data.get("expires")
        token = self._token
        if isinstance(expires, int | float) and time.time() > expires - MARGIN:
            token = await self._renew_token(token) or token
        request.headers["authorization"] = f"Bearer {token}"
        response = yield request
        if response.status_code != 401:
            return
        new_token = await self._renew_token(token)
        if new_token:
            request.headers["authorization"] = f"Bearer {new_token}"
            yield request

    @property
    def _token(self) -> str:
        return str((self._data.get("tokens") or {}).get("access_token") or "")

    def _use_data(self, data: dict[str, Any]) -> None:
        self._data = data
        tokens = data.get("tokens") or {}
        self.add_secrets([str(tokens[key]) for key in ("access_token", "refresh_token") if tokens.get(key)])

    async def _renew_token(self, old_token: str) -> str:
        """Return a newer token than this one, or ''."""
        async with self._lock:
            # Another process may have refreshed the token and stored the new one.
            if self._token == old_token:
                self._use_data(await to_thread.run_sync(self._store.read_tokens, abandon_on_cancel=True))
            if self._token == old_token and (self._data.get("tokens") or {}).get("refresh_token"):
                await self._refresh_tokens()
            if self._token == old_token:
                return ""
            return self._token

    async def _refresh_tokens(self) -> None:
        # The storage changes this copy.
        data = dict(self._data)
        storage = TokenStorage(self._store, data, None)
        provider = _build_provider(self._store.url, storage, data, _LOOPBACK, _reject_sign_in, _reject_sign_in)
        # The token has been rejected, or will be soon. With an expiry in the past, the SDK's client refreshes it.
        provider.context.token_expiry_time = 1.0
        # Tokens go only to the hosts of the authorization server that the user signed in to.
        metadata = data.get("metadata") or {}
        urls = [metadata.get("issuer"), metadata.get("token_endpoint")]
        hosts = frozenset(httpx2.URL(url).host for url in urls if isinstance(url, str))
        try:
            await _send_request(provider, self._store.url, self._transport, hosts)
        except Exception as error:
            # Errors of the SDK and of the network have many types. The user may also have to sign in again.
            logger.warning("server '%s': its token was not refreshed: %s", self._server, error)
        self._use_data(data)


class StoredSignIn(BearerAuth):
    """Sends the token of an earlier sign-in, if there is one, to a server that rejects requests without a token.

    The keyring is not read for other servers, because it may ask the user to unlock it.

    Attributes:
        is_rejected: Whether the server has rejected the last request.
    """

    is_rejected = False

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if not self._token:
            response = yield request
            self.is_rejected = response.status_code == 401
            if not self.is_rejected or find_spec("mcp") is None:
                return
            self._use_data(await to_thread.run_sync(self._store.read_tokens, abandon_on_cancel=True))
            if not self._token:
                return
        flow = super().async_auth_flow(request)
        request = await anext(flow)
        with contextlib.suppress(StopAsyncIteration):
            while True:
                response = yield request
                self.is_rejected = response.status_code == 401
                request = await flow.asend(response)


async def sign_in(
    url: str,
    redirect: str,
    open_page: Callable[[str], Awaitable[None]],
    receive_query: Callable[[], Awaitable[Mapping[str, str]]],
    *,
    transport: str = "http",
    use_keyring: bool = True,
) -> str:
    """Let the user sign in to a server, and store the tokens. Raises SourceError.

    Args:
        redirect: The URI that receives the authorization code.
        open_page: Shows the user the page of the authorization server.
        receive_query: Waits for the query the server sends to `redirect`.
        use_keyring: Whether to store the tokens in the keyring. If not, or if there is no usable one, a file has them.

    Returns:
        A description of the place of the tokens for users, or '' if the server requires no tokens.
    """
    _check_extra()
    from mcp.client.auth import OAuthFlowError
    from mcp.shared.auth import AuthorizationCodeResult

    async def receive_code() -> AuthorizationCodeResult:
        query = await receive_query()
        return AuthorizationCodeResult(code=query.get("code", ""), state=query.get("state"), iss=query.get("iss"))

    storage = TokenStorage(TokenStore(url), {}, use_keyring)
    provider = _build_provider(url, storage, {}, redirect, open_page, receive_code)
    try:
        await _send_request(provider, url, transport)
    except (OAuthFlowError, HttpClientError, httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        raise SourceError(f"signing in to {url} failed: {str(error) or type(error).__name__}") from error
    if provider.context.current_tokens is None:
        return ""
    if storage.place is None:
        return "the keyring of the system"
    return f"the file {storage.place}"


def _check_extra() -> None:
    """Raise SourceError if the SDK is not installed."""
    if find_spec("mcp") is None:
        raise SourceError("OAuth needs the MCP SDK. Install it: pip install 'mcp-tool-bridge[oauth]'")


def _build_provider(
    url: str,
    storage: TokenStorage,
    data: dict[str, Any],
    redirect: str,
    open_page: Callable[[str], Awaitable[Any]],
    receive_code: Callable[[], Awaitable[AuthorizationCodeResult]],
) -> OAuthClientProvider:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata, OAuthMetadata, ProtectedResourceMetadata

    client = OAuthClientMetadata.model_validate({"client_name": "mcp-bridge", "redirect_uris": [redirect]})
    provider = OAuthClientProvider(url, client, storage, open_page, receive_code)
    storage.provider, context = provider, provider.context
    if "metadata" in data:
        context.oauth_metadata = OAuthMetadata.model_validate(data["metadata"])
    if "resource" in data:
        context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(data["resource"])
    return provider


class _SignInTransport(httpx2.AsyncBaseTransport):
    """Sends requests to the server, and to other addresses that its responses name if they are safe.

    A malicious response could name an address on a private network of this machine. If there are `hosts`, only these
    are safe. Otherwise, all public addresses and the networks of the server are safe. Requests use the proxies of the
    environment. A proxy resolves the names of hosts itself, so only literal IP addresses can be checked before it.
    """

    def __init__(self, url: str, hosts: frozenset[str] | None) -> None:
        self._url = httpx2.URL(url)
        self._hosts = hosts
        self._direct = httpx2.AsyncHTTPTransport(proxy=_find_proxy(self._url))
        self._proxied: dict[str, httpx2.AsyncHTTPTransport] = {}
        self._checked: CheckedTransport | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request. Raises AddressRejected."""
        url = request.url
        if (url.scheme, url.host, url.port) == (self._url.scheme, self._url.host, self._url.port):
            return await self._direct.handle_async_request(request)
        if self._hosts is not None and url.host not in self._hosts:
            raise AddressRejected(
                f"'{url.host}' is not the host of the authorization server that the user signed in to"
            )
        proxy = _find_proxy(url)
        if proxy is not None:
            _check_literal_address(url)
            if proxy not in self._proxied:
                self._proxied[proxy] = httpx2.AsyncHTTPTransport(proxy=proxy)
            return await self._proxied[proxy].handle_async_request(request)
        if self._checked is None:
            port = self._url.port or (443 if self._url.scheme == "https" else 80)
            addresses = await resolve_host(self._url.host, port, TIMEOUT)
            self._checked = CheckedTransport(AddressPolicy(find_networks(addresses)), httpx2.create_ssl_context())
        return await self._checked.handle_async_request(request)

    async def aclose(self) -> None:
        """Close all connections."""
        for transport in (self._direct, self._checked, *self._proxied.values()):
            if transport is not None:
                await transport.aclose()


def _find_proxy(url: httpx2.URL) -> str | None:
    if proxy_bypass(url.host):
        return None
    proxies = getproxies()
    return proxies.get(url.scheme, proxies.get("all"))


def _check_literal_address(url: httpx2.URL) -> None:
    try:
        address = ip_address(url.host)
    except ValueError:
        return
    if not AddressPolicy().is_allowed(address, encrypted=True):
        raise AddressRejected(f"the address {url.host} is not public")


async def _send_request(
    provider: OAuthClientProvider, url: str, transport: str, hosts: frozenset[str] | None = None
) -> None:
    """Send a request, so the SDK's client signs in or refreshes tokens. The response is not read."""
    sender = _SignInTransport(url, hosts)
    timeout = httpx2.Timeout(TIMEOUT)
    async with httpx2.AsyncClient(auth=provider, timeout=timeout, headers=_HEADERS, transport=sender) as client:
        method, body = ("GET", None) if transport == "sse" else ("POST", _PING)
        async with client.stream(method, url, json=body):
            pass


async def _reject_sign_in(url: str = "") -> AuthorizationCodeResult:
    raise SourceError("the user must sign in again")
