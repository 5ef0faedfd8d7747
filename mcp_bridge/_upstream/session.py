"""A session with an MCP server, in the era that the server speaks (basic/lifecycle; 2026-07-28, server/discover)."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import anyio

from mcp_bridge._contracts.jsonrpc import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    UNSUPPORTED_VERSION,
    RpcError,
)
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tasks import TASKS
from mcp_bridge._json_schema.headers import DeclaredHeader, list_headers
from mcp_bridge._protocol.peer.connection import IncomingRequest, Message, MessageStream, PeerConnection
from mcp_bridge._protocol.wire.meta_keys import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    PROTOCOL_VERSION,
    SERVER_INFO,
)
from mcp_bridge._protocol.wire.protocol_versions import (
    HANDSHAKE,
    HANDSHAKE_VERSIONS,
    STATELESS,
    STATELESS_VERSIONS,
    has_feature,
)
from mcp_bridge._runtime.exact_json import dump_json
from mcp_bridge._runtime.tasks import TaskOwner
from mcp_bridge._upstream.followed_task import follow_task
from mcp_bridge._upstream.messages import NOT_RECEIVED
from mcp_bridge._upstream.relayed_call import RelayedCall
from mcp_bridge._upstream.trust.screening import screen_error
from mcp_bridge._version import __version__

logger = logging.getLogger("mcp_bridge.upstream")

Era = Literal["handshake", "stateless"]
"""The protocol versions up to 2025-11-25, and those from 2026-07-28."""
PROBE_TIMEOUT = 3.0
"""Seconds that a server may take to answer server/discover, before it is taken for one of the handshake era."""
MAX_PAGES, MAX_ENTRIES, MAX_LIST_SIZE = 1_000, 20_000, 32 * 1024 * 1024
"""The maximum numbers of pages, entries and bytes of a list that are read."""
_CLIENT = {"name": "mcp-bridge", "version": __version__}
_HANDSHAKE_CAPABILITIES: Mapping[str, Any] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}},
    "roots": {},
}
"""What is declared once for all clients. A question that a client cannot answer gets an error."""
LOG_MESSAGE = "notifications/message"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
RESOURCES = "resourceSubscriptions"
_RELAYED_CAPABILITIES = ("elicitation", "sampling", "roots", "extensions")
_EXTENSIONS: Mapping[str, Any] = {TASKS: {}}
"""The extensions that the bridge supports itself, whatever its clients do."""


class UpstreamChannel(Protocol):
    """Carries messages to a server."""

    @property
    def stream(self) -> MessageStream:
        """The stream of all messages."""

    def adopt_version(self, version: str) -> None:
        """Use this protocol version from now on."""


@runtime_checkable
class HeaderSender(Protocol):
    """A channel that sends arguments of calls as headers too."""

    def declare_headers(self, headers: Mapping[str, tuple[DeclaredHeader, ...]]) -> None:
        """Send these arguments of tools as headers."""


class SessionListener(Protocol):
    """Receives what a server sends outside of calls."""

    def handle_list_change(self) -> None:
        """One of the server's lists has changed."""

    def handle_resource_update(self, uri: str) -> None:
        """A resource has changed."""


class UpstreamSession:
    """A session with a server. It serves the server's own requests, by asking the client whose call is in flight.

    Attributes:
        name: The name of the server in the settings.
        channel: What carries the messages.
        version: The protocol version; empty before `negotiate`.
        capabilities: What the server has declared.
        info: The server's name and version.
        instructions: How a model should use the server.
    """

    def __init__(
        self,
        name: str,
        channel: UpstreamChannel,
        tasks: TaskOwner,
        listener: SessionListener,
        *,
        has_one_client: bool = False,
        on_rejection: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self.name = name
        self.channel = channel
        self._has_one_client = has_one_client
        self._on_rejection = on_rejection
        self._tasks = tasks
        self._listener = listener
        self._calls: list[RelayedCall] = []
        self._turn: anyio.Lock | None = None
        self._on_open: Callable[[], None] = lambda: None
        self._probed = anyio.Event()
        self._discovered: Any = None
        self.connection = PeerConnection(self, channel.stream, tasks)
        self.version = ""
        self.capabilities: Mapping[str, Any] = {}
        self.info: Mapping[str, Any] = {}
        self.instructions = ""

    @property
    def is_stateless(self) -> bool:
        return self.version in STATELESS_VERSIONS

    @property
    def era(self) -> Era:
        return "stateless" if self.is_stateless else "handshake"

    @property
    def can_subscribe(self) -> bool:
        """Whether the server accepts subscriptions to resources."""
        resources = self.capabilities.get("resources")
        return isinstance(resources, Mapping) and bool(resources.get("subscribe"))

    async def negotiate(self, eras: Sequence[Era]) -> None:
        """Agree upon a version of one of these eras, in the order of preference. Raises RpcError.

        A server that does not speak an era rejects its first request, and may name the versions that it speaks.
        """
        problem = RpcError(INTERNAL_ERROR, f"the server does not speak version {STATELESS} of the protocol")
        for era in eras:
            try:
                if era == "handshake":
                    await self._initialize()
                    return
                if await self._probe_version():
                    return
            except RpcError as error:
                if error.code in (CONNECTION_CLOSED, NOT_RECEIVED):
                    raise
                problem = error
        if self._adopt_probe():  # a slow server has answered the first request, and takes no other era
            return
        raise problem

    async def _initialize(self) -> None:
        """Agree upon a version by initialize. Raises RpcError."""
        version = max(_list_supported(self._discovered, HANDSHAKE_VERSIONS), default=HANDSHAKE)
        try:
            result = await self._send_initialize(version)
        except RpcError as error:
            other_versions = [name for name in _list_supported(error, HANDSHAKE_VERSIONS) if name != version]
            if not other_versions:
                raise
            result = await self._send_initialize(max(other_versions))
        version = result.get("protocolVersion")
        if version not in HANDSHAKE_VERSIONS:
            raise RpcError(INTERNAL_ERROR, f"the server speaks version {version!r} of the protocol, which is unknown")
        self._adopt(version, result)
        self.connection.notify("notifications/initialized")
        with anyio.move_on_after(PROBE_TIMEOUT):  # many servers reject requests that arrive before it
            await self.connection.drain()
        if "logging" in self.capabilities:
            with contextlib.suppress(RpcError):  # clients choose from these; a server without levels works, too
                await self.connection.request("logging/setLevel", {"level": "debug"}, timeout=PROBE_TIMEOUT)

    async def _send_initialize(self, version: str) -> Any:
        params = {"protocolVersion": version, "capabilities": _HANDSHAKE_CAPABILITIES, "clientInfo": _CLIENT}
        return await self.connection.request("initialize", params)

    def declare_headers(self, tools: Iterable[tuple[str, Any]]) -> None:
        """Send arguments of calls as headers too, where the input schemas of these tools declare them."""
        if isinstance(self.channel, HeaderSender):
            self.channel.declare_headers({name: list_headers(schema) for name, schema in tools})

    async def list_all_pages(self, method: str, key: str) -> list[Mapping[str, Any]]:
        """Return the entries of all pages of a list. Raises RpcError, also for an invalid list."""
        entries: list[Mapping[str, Any]] = []
        cursor: str | None = None
        size = 0
        for _ in range(MAX_PAGES):
            result = await self.send_request(method, {} if cursor is None else {"cursor": cursor})
            page = result.get(key)
            if not isinstance(page, list):
                raise RpcError(INTERNAL_ERROR, f"the result of {method} has no list {key!r}")
            for entry in page:
                if (length := _measure_entry(entry)) is not None:
                    entries.append(entry)
                    size += length
            last, cursor = cursor, result.get("nextCursor")
            if not isinstance(cursor, str) or cursor == last:  # some servers ignore the cursor, and repeat the page
                return entries[:MAX_ENTRIES]
            if len(entries) > MAX_ENTRIES or size > MAX_LIST_SIZE:
                break
        logger.warning("%s: the list is too long, and its rest is left out", method)
        return entries[:MAX_ENTRIES]

    async def send_request(
        self, method: str, params: Mapping[str, Any], *, timeout: float | None = None
    ) -> Mapping[str, Any]:
        """Send a request that belongs to no call of a client. Raises RpcError."""
        if self.is_stateless:
            params = {**params, "_meta": self._build_envelope({"extensions": _EXTENSIONS})}
        try:
            result: Mapping[str, Any] = await self.connection.request(method, params, timeout=timeout)
        except RpcError as error:
            raise self._read_error(error) from error
        return result

    async def relay(self, method: str, params: dict[str, Any], ctx: RunningCall) -> Mapping[str, Any]:
        """Send the request of a client's call and return the result. Raises RpcError."""
        if self._turn is None:
            return await self._relay(method, params, ctx)
        async with self._turn:
            return await self._relay(method, params, ctx)

    async def _relay(self, method: str, params: dict[str, Any], ctx: RunningCall) -> Mapping[str, Any]:
        call = RelayedCall(ctx, self._tasks, self.channel.stream, self.name)
        meta = {key: value for key, value in ctx.meta.items() if key not in _OWN_KEYS} if ctx.meta else {}
        if self.is_stateless:
            extensions = {"extensions": _EXTENSIONS} if method == "tools/call" else {}
            meta |= self._build_envelope({**ctx.capabilities, **extensions})
            if level := ctx.meta.get(LOG_LEVEL, None if has_feature(ctx.protocol_version, STATELESS) else "debug"):
                meta[LOG_LEVEL] = level  # clients of the handshake era get what they want of these
        if meta:
            params = {**params, "_meta": meta}
        self._calls.append(call)
        try:
            on_progress = call.report_progress if call.wants_progress else None
            result: Mapping[str, Any] = await self.connection.request(
                method, params, stream=call, on_progress=on_progress
            )
            if result.get("resultType") == "task":
                result = await follow_task(self.send_request, call, result)
        except RpcError as error:
            raise self._read_error(error) from error
        finally:
            self._calls.remove(call)
        await call.flush()
        return result

    async def receive_changes(self, uris: Sequence[str] = (), on_open: Callable[[], None] | None = None) -> None:
        """Receive changes of a stateless server until its stream ends: of these resources, without any of its lists.

        `on_open` is called once the server has acknowledged a stream for resources. Raises RpcError.
        """
        self._on_open = on_open or self._on_open
        lists = dict.fromkeys(("toolsListChanged", "promptsListChanged", "resourcesListChanged"), True)
        notifications = {RESOURCES: list(uris)} if uris else lists
        await self.send_request("subscriptions/listen", {"notifications": notifications})

    def handle_request(self, request: IncomingRequest) -> Any:
        """Serve a request of the server: a ping, or a question for the client of the call in flight."""
        if request.method == "ping":
            return {}
        if request.method not in _QUESTIONS:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {request.method}")
        call = request.stream if isinstance(request.stream, RelayedCall) else self._find_call()
        if call is None and not self._calls:
            raise RpcError(INTERNAL_ERROR, "No call is in flight, so there is no client to ask.")
        if call is None:
            self._turn = self._turn or anyio.Lock()
            raise RpcError(INTERNAL_ERROR, "The question cannot be assigned to one of the calls in flight. Ask again.")
        return call.answer(request.method, request.params)

    def handle_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """Handle a notification of the server; unknown ones are ignored."""
        if method == LOG_MESSAGE:
            if (call := self._find_call()) is not None:
                call.report_log(params)
        elif method in _LIST_CHANGES:
            self._listener.handle_list_change()
        elif method == ACKNOWLEDGED and RESOURCES in (params.get("notifications") or ()):
            self._on_open()
        elif method == "notifications/resources/updated" and isinstance(uri := params.get("uri"), str):
            self._listener.handle_resource_update(uri)

    def handle_message(self, message: Message, origin: Any = None) -> bool:
        """Handle a message of the server. `origin` is the id of the request on whose stream it came, if that is known.

        A message on the stream of a call belongs to that call. Returns False for a response that is not expected.
        """
        call = (
            next((candidate for candidate in self._calls if candidate.number == origin), None)
            if origin is not None
            else None
        )
        if call is not None and message.get("method") == LOG_MESSAGE:
            call.report_log(message.get("params") or {})
            return True
        return self.connection.receive(message, call)

    def _read_error(self, error: RpcError) -> RpcError:
        """Return an error response for clients. If the server no longer speaks the version, end the session.

        Such a request can be sent again in the session that follows.
        """
        all_versions = (*HANDSHAKE_VERSIONS, *STATELESS_VERSIONS)
        if error.code == UNSUPPORTED_VERSION and any(
            name != self.version for name in _list_supported(error, all_versions)
        ):
            reason = f"the server no longer speaks version {self.version} of the protocol"
            self._on_rejection(reason)
            return RpcError(NOT_RECEIVED, reason)
        return screen_error(error)

    async def _probe_version(self) -> bool:
        """Return whether the server speaks a stateless version. One that is slow may still answer later."""
        self._set_version(STATELESS_VERSIONS[-1])
        self._tasks.spawn(self._send_probe)
        with anyio.move_on_after(PROBE_TIMEOUT):
            await self._probed.wait()
        if isinstance(self._discovered, RpcError) and self._discovered.code in (CONNECTION_CLOSED, NOT_RECEIVED):
            raise self._discovered
        if self._adopt_probe():
            return True
        self._set_version("")
        return False

    async def _send_probe(self) -> None:
        try:
            self._discovered = await self._request_discovery()
        except RpcError as error:
            self._discovered = error
        self._probed.set()

    async def _request_discovery(self) -> Any:
        """Send server/discover, again with a version that the server names instead. Raises RpcError."""
        try:
            return await self.connection.request("server/discover", {"_meta": self._build_envelope({})})
        except RpcError as error:
            other_versions = _list_supported(error, STATELESS_VERSIONS)
            if error.code != UNSUPPORTED_VERSION or not other_versions:
                raise
            self._set_version(other_versions[-1])
        return await self.connection.request("server/discover", {"_meta": self._build_envelope({})})

    def _adopt_probe(self) -> bool:
        if not isinstance(self._discovered, Mapping):
            return False
        common = _list_supported(self._discovered, STATELESS_VERSIONS)
        if common:
            self._adopt(common[-1], self._discovered)
        return bool(common)

    def _set_version(self, version: str) -> None:
        self.version = version
        self.channel.adopt_version(version)

    def _adopt(self, version: str, result: Mapping[str, Any]) -> None:
        self._set_version(version)
        capabilities = result.get("capabilities")
        self.capabilities = capabilities if isinstance(capabilities, Mapping) else {}
        meta = result.get("_meta")
        info = meta.get(SERVER_INFO) if self.is_stateless and isinstance(meta, Mapping) else result.get("serverInfo")
        self.info = info if isinstance(info, Mapping) else {}
        instructions = result.get("instructions")
        self.instructions = instructions if isinstance(instructions, str) else ""

    def _build_envelope(self, capabilities: Mapping[str, Any]) -> dict[str, Any]:
        client_capabilities = {name: capabilities[name] for name in _RELAYED_CAPABILITIES if name in capabilities}
        return {PROTOCOL_VERSION: self.version, CLIENT_INFO: _CLIENT, CLIENT_CAPABILITIES: client_capabilities}

    def _find_call(self) -> RelayedCall | None:
        """Return the call that the server's question or log message belongs to; None where that is not certain.

        A pipe does not say it. If several calls are in flight, they must be of one client.
        """
        if len(self._calls) <= 1 or self._has_one_client:
            return self._calls[-1] if self._calls else None
        owners = {(call.ctx.session, call.ctx.client, call.ctx.principal) for call in self._calls}
        last = self._calls[-1]
        return last if len(owners) == 1 and (last.ctx.session or last.ctx.client is None) else None


def _list_supported(response: Any, versions: Sequence[str]) -> list[str]:
    """Return the known versions that a server names in server/discover, or in an error for an unsupported version."""
    if isinstance(response, RpcError):
        names = response.data.get("supported") if isinstance(response.data, Mapping) else None
    else:
        names = response.get("supportedVersions") if isinstance(response, Mapping) else None
    return [version for version in versions if isinstance(names, list) and version in names]


def _measure_entry(entry: Any) -> int | None:
    """Return the size of an entry of a list in bytes; None if it is none, or so deep that no list can contain it."""
    try:
        return len(dump_json([[[[[entry]]]]])) if isinstance(entry, Mapping) else None
    except TypeError:
        logger.warning("an entry of a list is nested too deeply, and is left out")
        return None


_QUESTIONS = frozenset({"elicitation/create", "sampling/createMessage", "roots/list"})
_LIST_CHANGES = frozenset(f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources"))
_OWN_KEYS = frozenset({"progressToken", PROTOCOL_VERSION, CLIENT_INFO, CLIENT_CAPABILITIES, LOG_LEVEL})
"""The keys of `_meta` that concern one connection only."""
