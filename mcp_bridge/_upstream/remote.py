"""Carries messages to an MCP server over Streamable HTTP (basic/transports), in both eras."""

from __future__ import annotations

import logging
import re
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin, urlsplit

import anyio
import httpx2

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._contracts.jsonrpc import CONNECTION_CLOSED
from mcp_bridge._json_schema.headers import DeclaredHeader
from mcp_bridge._protocol.peer.connection import CANCELLED, Message
from mcp_bridge._protocol.peer.json_lines import dump_message
from mcp_bridge._protocol.wire.http_headers import NAMED_METHODS, encode_header
from mcp_bridge._protocol.wire.protocol_versions import STATELESS_VERSIONS
from mcp_bridge._runtime.tasks import TaskOwner, own_tasks
from mcp_bridge._upstream.messages import (
    INVALID_RESPONSE,
    MAX_MESSAGE,
    NOT_RECEIVED,
    FaultListener,
    MessageReader,
    ReceivedFault,
    Receiver,
    make_failure,
)
from mcp_bridge._upstream.session import UpstreamChannel
from mcp_bridge._upstream.stream_retries import StreamRetries
from mcp_bridge._upstream.trust.screening import shorten_text

logger = logging.getLogger("mcp_bridge.upstream")

# Reading has no timeout, because a server may hold a stream open, and calls have their own time limits.
TIMEOUT = httpx2.Timeout(30, read=None)
CONNECTIONS = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
"""Connections are not limited, because each call in flight needs one, and calls are limited themselves."""
RETRY_INTERVAL, MAX_RETRY_INTERVAL = 1.0, 60.0
"""Seconds before a stream that broke or was closed is resumed, and the maximum that a server can set instead."""
MAX_REDIRECTS = 3
"""The maximum number of redirects of one request that are followed."""
MAX_RESUMES = 10
"""The maximum number of times in a row that the stream of one response is resumed without a new event."""
END_TIMEOUT = 2.0
"""Seconds that ending a session may take."""
_NO_SESSION = re.compile(rb"session|not initialized", re.IGNORECASE)
"""Text in the bodies of servers that reject an unknown session with status 400, although the specification requires
404."""
_ACCEPTED = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerUrl:
    """The address of a server over Streamable HTTP.

    Attributes:
        headers: The headers of every request.
        read_headers: Returns the current headers. It is called if the server rejects those of a request.
        auth: Adds credentials to requests, instead of `read_headers`.
        on_fault: Gets everything but valid messages.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    read_headers: Callable[[], Awaitable[Mapping[str, str]]] | None = None
    auth: httpx2.Auth | None = None
    on_fault: FaultListener | None = None

    @property
    def label(self) -> str:
        """The address without its credentials and its query, which may contain secrets."""
        return format_address(self.url)

    def choose_auth(self) -> httpx2.Auth | None:
        """Return an object for httpx2 with the credentials of requests, or None."""
        if self.auth is not None or self.read_headers is None:
            return self.auth
        return HeaderAuth(self.headers, self.read_headers)

    @asynccontextmanager
    async def open_channel(self, receive: Receiver, on_end: Callable[[str], None]) -> AsyncIterator[UpstreamChannel]:
        """Yield a channel. `receive` gets the messages of the server, and `on_end` the reason of the channel's end."""
        async with (
            httpx2.AsyncClient(
                headers={**_ACCEPTED, **self.headers}, timeout=TIMEOUT, limits=CONNECTIONS, auth=self.choose_auth()
            ) as client,
            own_tasks() as tasks,
        ):
            channel = HttpChannel(self, client, tasks, receive, on_end)
            try:
                yield channel
            finally:
                await channel.end_session()


class HeaderAuth(httpx2.Auth):
    """Sends headers with credentials, which may change while a connection lasts.

    If the server rejects them with status 401, `read_headers` returns the current ones. If they differ, the request is
    sent again.
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


class HttpStream:
    """The common part of channels over HTTP. Each message is a separate request, and its `_post` is a separate task."""

    def __init__(
        self,
        address: ServerUrl,
        client: httpx2.AsyncClient,
        tasks: TaskOwner,
        receive: Receiver,
        on_end: Callable[[str], None],
    ) -> None:
        self._client = client
        self._url = address.url
        self._on_fault = address.on_fault
        self._tasks = tasks
        self._receive = receive
        self._on_end = on_end
        self._reader = MessageReader(address.label, address.on_fault)
        self._notified: anyio.Event | None = None
        # A session sends its messages to `stream`. Over HTTP, there is no stream below the channel.
        self.stream = self

    def send(self, message: Message) -> None:
        if "id" in message:
            self._tasks.spawn(self._post, message)
        else:
            self._notified = anyio.Event()
            self._tasks.spawn(self._post_notification, message, self._notified)

    def finish(self, response: Message | None) -> None:
        """Send the response to a request of the server."""
        if response is not None:
            self._tasks.spawn(self._post, response)

    async def drain(self) -> None:
        """Wait until the server has received the last notification, because a later request could overtake it."""
        if self._notified is not None:
            await self._notified.wait()

    async def close(self) -> None:
        """Do nothing. `close` is for streams to clients, which can resume them."""

    async def _post_notification(self, message: Message, notified: anyio.Event) -> None:
        try:
            await self._post(message)
        finally:
            notified.set()

    @asynccontextmanager
    async def _open_response(
        self, method: str, url: str, *, headers: Mapping[str, str], content: bytes | None = None
    ) -> AsyncGenerator[httpx2.Response]:
        """Send a request and yield the response. A redirect to another path of the same server is followed.

        Credentials are never sent to another scheme, host or port.
        """
        for _ in range(MAX_REDIRECTS):
            async with self._client.stream(method, url, headers=dict(headers), content=content) as response:
                target = find_own_redirect(response)
                if target is None:
                    yield response
                    return
            # Applications of Starlette redirect each request to a path without its last slash, so keep the new path.
            if url == self._url:
                self._url = target
            url = target
        async with self._client.stream(method, url, headers=dict(headers), content=content) as response:
            yield response

    @abstractmethod
    async def _post(self, message: Message) -> None:
        """Send a message as the body of a request."""


class HttpChannel(HttpStream):
    """The channel of a server over Streamable HTTP.

    Each message is posted in a separate task (`_post`). The response to a request is one message, or an event stream,
    in which messages of the server precede it. A stream that breaks is resumed after its last event, if the server has
    sessions. In the handshake era, one more stream has the messages that belong to no request
    (`_receive_notifications`). Only a lost session or an unreachable server ends the channel.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._version = ""
        self._session = ""
        self._retry_interval = RETRY_INTERVAL
        self._requests: dict[Any, anyio.CancelScope] = {}
        self._declared: Mapping[str, tuple[DeclaredHeader, ...]] = {}

    def adopt_version(self, version: str) -> None:
        """Send this protocol version from now on. In the handshake era, listen for messages outside of requests."""
        self._version = version
        if version and version not in STATELESS_VERSIONS:
            self._tasks.spawn(self._receive_notifications)

    def declare_headers(self, headers: Mapping[str, tuple[DeclaredHeader, ...]]) -> None:
        """Send these arguments of tools as headers too (2026-07-28, `x-mcp-header`)."""
        self._declared = headers

    def send(self, message: Message) -> None:
        """Send a message. A cancellation also closes the stream of the cancelled request's response."""
        if message.get("method") == CANCELLED:
            # Many servers never end the stream of a cancelled request. In the stateless era, closing it is the
            # cancellation (2026-07-28, basic/transports).
            scope = self._requests.get(message["params"]["requestId"])
            if scope is not None:
                scope.cancel()
            if self._version in STATELESS_VERSIONS:
                return
        super().send(message)

    async def end_session(self) -> None:
        """End the session of the handshake era."""
        if self._session:
            with anyio.CancelScope(shield=True), anyio.move_on_after(END_TIMEOUT):
                try:
                    await self._client.delete(self._url, headers=self._build_headers())
                except httpx2.HTTPError as error:
                    logger.debug("the session could not be ended: %s", error)

    async def _post(self, message: Message) -> None:
        request_id = message.get("id") if "method" in message else None
        problem, code = "", INVALID_RESPONSE
        with anyio.CancelScope() as scope:
            if request_id is not None:
                self._requests[request_id] = scope
            try:
                problem = await self._exchange(message, request_id)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                problem = describe_failure_to_reach(error)
                if request_id is not None:
                    self._receive(make_failure(request_id, problem, NOT_RECEIVED), request_id)
                self._on_end(problem)
                return
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                problem, code = describe_failure_to_reach(error), CONNECTION_CLOSED
            finally:
                self._requests.pop(request_id, None)
        if problem and request_id is not None:
            self._receive(make_failure(request_id, problem, code), request_id)
        elif problem:
            logger.warning("a message could not be sent to %s: %s", urlsplit(self._url).hostname, problem)

    async def _exchange(self, message: Message, request_id: Any) -> str:
        """Send a message and receive the response. Return why there is none, or '' if all is well."""
        headers = {**self._build_headers(), **self._repeat_body(message)}
        async with self._open_response("POST", self._url, content=dump_message(message), headers=headers) as response:
            if message.get("method") == "initialize":
                self._session = response.headers.get("mcp-session-id") or self._session
            content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if response.status_code == 404 and self._session:
                return self._end_lost_session(request_id)
            if content_type == "text/event-stream" and response.is_success:
                last_id, has_response = await self._read_events(response, request_id)
                if has_response or request_id is None:
                    return ""
                return await self._resume_response(last_id, request_id)
            body = await _read_body(response)
            if request_id is None:
                return "" if response.is_success else f"HTTP status {response.status_code}"
            # `doctor` reports that the server requires authorization, whatever the body says.
            if response.status_code in (401, 403) and self._on_fault is not None:
                return self._reject_response(response)
            reply = None
            if body and (response.is_success or not content_type or content_type.endswith("json")):
                reply = self._reader.read_message(body)
            if reply is not None and _is_response(reply, request_id):
                self._receive(reply, request_id)
                return ""
            if response.status_code == 400 and self._session and _NO_SESSION.search(body):
                return self._end_lost_session(request_id)
            # A server that could not read the request does not know its id (JSON-RPC 2.0, 5).
            if reply is not None and isinstance(reply.get("error"), dict) and reply.get("id") is None:
                self._receive({**reply, "id": request_id}, request_id)
                return ""
        return self._reject_response(response)

    def _reject_response(self, response: httpx2.Response) -> str:
        """Return why a response has no message, and report it to `on_fault`."""
        problem = describe_status(response)
        if self._on_fault is not None and not response.is_success:
            self._on_fault(ReceivedFault(problem=problem, status=response.status_code))
        return problem

    def _end_lost_session(self, request_id: Any) -> str:
        """Fail a request, because the server has rejected the session."""
        if request_id is not None:
            self._receive(make_failure(request_id, "the session has ended", NOT_RECEIVED), request_id)
        self._on_end("its session has ended")
        return ""

    async def _read_events(self, response: httpx2.Response, request_id: Any) -> tuple[str, bool]:
        """Receive the messages of a stream. Return its last event id, and whether it had the response to `request_id`.

        Without a request, any message counts as the response.
        """
        last_id, has_response = "", False
        async for event in read_events(response):
            last_id = event.id or last_id
            if event.retry is not None:
                # The field `retry` is in milliseconds. It may be too large for a float.
                milliseconds = min(event.retry, MAX_RETRY_INTERVAL * 1000)
                self._retry_interval = max(milliseconds / 1000, RETRY_INTERVAL)
            message = None
            if event.data and event.event == "message":
                message = self._reader.read_message(event.data.encode())
            await self._reader.budget.wait_while_empty()
            if message is not None:
                has_response = has_response or request_id is None or _is_response(message, request_id)
                # The reader charges all messages except responses, so unexpected ones are charged here.
                if not self._receive(message, request_id):
                    self._reader.budget.charge(1)
        return last_id, has_response

    async def _resume_response(self, last_id: str, request_id: Any) -> str:
        """Resume the broken stream of a response. Return why this is impossible, or '' after the response."""
        attempts = 0
        while last_id and self._session and attempts < MAX_RESUMES:
            attempts += 1
            await anyio.sleep(self._retry_interval)
            headers = {**self._build_headers(), "last-event-id": last_id, "accept": "text/event-stream"}
            try:
                async with self._open_response("GET", self._url, headers=headers) as response:
                    if not response.is_success:
                        return describe_status(response)
                    event_id, has_response = await self._read_events(response, request_id)
            except httpx2.TransportError:
                continue
            if has_response:
                return ""
            # A server may close the stream so that clients poll (2025-11-25, basic/transports).
            if event_id and event_id != last_id:
                last_id, attempts = event_id, 0
        return "the response has ended early"

    async def _receive_notifications(self) -> None:
        """Receive the messages that belong to no request, on a separate stream, if the server has one."""
        last_id, retries = "", StreamRetries()
        while True:
            headers = {**self._build_headers(), "accept": "text/event-stream"}
            if last_id:
                headers["last-event-id"] = last_id
            has_worked, is_reachable = False, True
            retries.start_stream()
            try:
                async with self._open_response("GET", self._url, headers=headers) as response:
                    if response.status_code == 404 and self._session:
                        self._on_end("its session has ended")
                    if not response.is_success:
                        return
                    event_id, has_worked = await self._read_events(response, None)
                    has_worked = has_worked or bool(event_id and event_id != last_id)
                    last_id = event_id or last_id
            except httpx2.TransportError as error:
                # An SSEError means that the server responds, but with a body that is not an event stream.
                is_reachable = isinstance(error, httpx2.SSEError)
                logger.debug("the stream of notifications broke: %s", error)
            if not await retries.pause(self._retry_interval, has_worked=has_worked, is_reachable=is_reachable):
                logger.info("%s has no stream of notifications", urlsplit(self._url).hostname)
                return

    def _build_headers(self) -> dict[str, str]:
        headers = {}
        if self._version:
            headers["mcp-protocol-version"] = self._version
        if self._session:
            headers["mcp-session-id"] = self._session
        return headers

    def _repeat_body(self, message: Message) -> dict[str, str]:
        """Return the headers that repeat parts of the body of a stateless request (2026-07-28, basic/transports)."""
        method, params = message.get("method"), message.get("params") or {}
        if method is None or self._version not in STATELESS_VERSIONS:
            return {}
        headers = {"mcp-method": method}
        name = params.get(NAMED_METHODS.get(method))
        if not isinstance(name, str):
            return headers
        headers["mcp-name"] = encode_header(name)
        if method == "tools/call":
            for header in self._declared.get(name, ()):
                # The path leads to the argument through nested objects.
                value = params.get("arguments")
                for key in header.path:
                    value = value.get(key) if isinstance(value, Mapping) else None
                if isinstance(value, bool):
                    value = str(value).lower()
                if isinstance(value, str | int | float):
                    headers[f"mcp-param-{header.name.lower()}"] = encode_header(str(value))
        return headers


def _is_response(message: Message, request_id: Any) -> bool:
    """Return whether a message is the response to a request. Some servers return a numeric id as text."""
    return "method" not in message and str(message.get("id")) == str(request_id)


async def read_events(response: httpx2.Response) -> AsyncIterator[httpx2.ServerSentEvent]:
    """Read an event stream, without a byte order mark (HTML standard, 9.2.5)."""
    response.encoding = "utf-8-sig"
    async for event in httpx2.EventSource(response, max_event_size=MAX_MESSAGE):
        yield event


def describe_failure_to_reach(error: Exception) -> str:
    """Return why there is no response, for users."""
    return f"the server cannot be reached: {str(error) or type(error).__name__}"


async def _read_body(response: httpx2.Response) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > MAX_MESSAGE:
            return b""
    return bytes(body)


def describe_status(response: httpx2.Response) -> str:
    """Return why a response has no message, without the address, which may contain secrets."""
    if response.is_redirect:
        return describe_redirect(response)
    if response.status_code in (401, 403):
        return f"the server requires authorization (HTTP status {response.status_code}). Check its headers"
    if response.is_success:
        return "the server sent something else than the response to this request"
    return f"the server responded without a message (HTTP status {response.status_code})"


def format_address(url: str) -> str:
    """Return an address without its credentials and its query, because these may contain secrets."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.port:
        host += f":{parts.port}"
    return f"{parts.scheme}://{host}{parts.path}"


def find_own_redirect(response: httpx2.Response) -> str | None:
    """Return the target of a redirect of the same request to the same server (RFC 9110, 15.4.8 and 15.4.9), or None."""
    if response.status_code not in (307, 308):
        return None
    try:
        target = httpx2.URL(_read_location(response))
    except (ValueError, httpx2.InvalidURL):
        return None
    if _get_origin(target) != _get_origin(response.request.url):
        return None
    return str(target)


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
