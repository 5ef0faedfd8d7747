"""A session with an MCP server, in the era of the server (basic/lifecycle; 2026-07-28, server/discover).

`negotiate` tries the eras in the order of preference. A server of the handshake era rejects `server/discover`, or does
not respond to it, so after PROBE_TIMEOUT the session tries `initialize`. If that fails, the server may be a slow one of
the stateless era, and its late response to `server/discover` decides.

The calls of all clients share the session. A question or a log message of the server concerns one of them. Over HTTP,
its stream shows which one. Over a pipe, it is only known if no other client has a call in flight (`_find_call`). If a
question cannot be assigned to one call, it is rejected, and from then on calls are sent one after the other (`_turn`).
"""

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
"""Seconds after which a server that does not respond to server/discover counts as one of the handshake era."""
MAX_PAGES, MAX_ENTRIES, MAX_LIST_SIZE = 1_000, 20_000, 32 * 1024 * 1024
"""The maximum numbers of pages, entries and bytes of a list that are read."""
_CLIENT = {"name": "mcp-bridge", "version": __version__}
_HANDSHAKE_CAPABILITIES: Mapping[str, Any] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}},
    "roots": {},
}
"""The capabilities that the session declares for all of its clients. If a client cannot answer a question, the server
gets an error."""
LOG_MESSAGE = "notifications/message"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
RESOURCES = "resourceSubscriptions"
_RELAYED_CAPABILITIES = ("elicitation", "sampling", "roots", "extensions")
_EXTENSIONS: Mapping[str, Any] = {TASKS: {}}
"""The extensions that the bridge itself supports, whether its clients support them or not."""


class UpstreamChannel(Protocol):
    """Carries messages to a server."""

    @property
    def stream(self) -> MessageStream:
        """The stream of all messages."""

    def adopt_version(self, version: str) -> None:
        """Use this protocol version from now on."""


@runtime_checkable
class HeaderSender(Protocol):
    """A channel with the ability to repeat arguments in headers."""

    def declare_headers(self, headers: Mapping[str, tuple[DeclaredHeader, ...]]) -> None:
        """Send these arguments as headers, too. The keys are the names of tools."""


class SessionListener(Protocol):
    """Receives notifications outside of calls."""

    def handle_list_change(self) -> None:
        """One of the server's lists has changed."""

    def handle_resource_update(self, uri: str) -> None:
        """A resource has changed."""


class UpstreamSession:
    """A session with a server. Questions of the server go to the client of the call in flight.

    Attributes:
        name: The name of the server in the settings.
        channel: Carries the messages.
        connection: Sends requests, and has the requests of the server handled.
        version: The protocol version; empty before `negotiate`.
        capabilities: The capabilities of the server.
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
        # The calls in flight, the latest one last.
        self._calls: list[RelayedCall] = []
        # Held by a call in flight, once the server has asked a question that could not be assigned to one call.
        self._turn: anyio.Lock | None = None
        self._on_open: Callable[[], None] = lambda: None
        # The result of server/discover, or its error, or None while there is none.
        self._discovery: Any = None
        self._discovery_ended = anyio.Event()
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
        """Agree upon a version of one of these eras, in the order of preference. Raises RpcError."""
        problem = RpcError(INTERNAL_ERROR, f"the server does not speak version {STATELESS} of the protocol")
        for era in eras:
            try:
                if era == "handshake":
                    await self._initialize()
                    return
                if await self._negotiate_stateless():
                    return
            except RpcError as error:
                if error.code in (CONNECTION_CLOSED, NOT_RECEIVED):
                    raise
                problem = error
        # A slow server of the stateless era may have responded meanwhile.
        if not self._adopt_discovery():
            raise problem

    async def _initialize(self) -> None:
        """Agree upon a version by initialize. Raises RpcError."""
        # A response to server/discover, even an error, may name the versions of the handshake era.
        version = max(_list_supported(self._discovery, HANDSHAKE_VERSIONS), default=HANDSHAKE)
        try:
            result = await self._send_initialize(version)
        except RpcError as error:
            other_versions = set(_list_supported(error, HANDSHAKE_VERSIONS)) - {version}
            if not other_versions:
                raise
            # The error names other versions, so the newest of them will be accepted.
            result = await self._send_initialize(max(other_versions))
        version = result.get("protocolVersion")
        if version not in HANDSHAKE_VERSIONS:
            raise RpcError(INTERNAL_ERROR, f"the server speaks version {version!r} of the protocol, which is unknown")
        self._adopt(version, result)
        self.connection.notify("notifications/initialized")
        # Many servers reject requests that arrive before the notification.
        with anyio.move_on_after(PROBE_TIMEOUT):
            await self.connection.drain()
        if "logging" in self.capabilities:
            # Each client gets only the levels that it has chosen. The server may not support the request.
            with contextlib.suppress(RpcError):
                await self.connection.request("logging/setLevel", {"level": "debug"}, timeout=PROBE_TIMEOUT)

    async def _send_initialize(self, version: str) -> Any:
        params = {"protocolVersion": version, "capabilities": _HANDSHAKE_CAPABILITIES, "clientInfo": _CLIENT}
        return await self.connection.request("initialize", params)

    def declare_headers(self, tools: Iterable[tuple[str, Any]]) -> None:
        """Send the arguments as headers, too, for which the input schemas of these tools declare headers."""
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
                length = _measure_entry(entry)
                if length is not None:
                    entries.append(entry)
                    size += length
            last_cursor = cursor
            cursor = result.get("nextCursor")
            # Some servers ignore the cursor, and return the same page again.
            if not isinstance(cursor, str) or cursor == last_cursor:
                return entries[:MAX_ENTRIES]
            if len(entries) > MAX_ENTRIES or size > MAX_LIST_SIZE:
                break
        logger.warning("%s: the list is too long, and its rest is left out", method)
        return entries[:MAX_ENTRIES]

    async def send_request(
        self, method: str, params: Mapping[str, Any], *, timeout: float | None = None
    ) -> Mapping[str, Any]:
        """Send a request outside of calls of clients. Raises RpcError."""
        if self.is_stateless:
            params = {**params, "_meta": self._build_envelope({"extensions": _EXTENSIONS})}
        try:
            result: Mapping[str, Any] = await self.connection.request(method, params, timeout=timeout)
        except RpcError as error:
            raise self._read_error(error) from error
        return result

    async def relay(self, method: str, params: dict[str, Any], ctx: RunningCall) -> Mapping[str, Any]:
        """Send the request of a client's call and return the result. Raises RpcError."""
        meta = self._build_call_meta(method, ctx)
        if meta:
            params = {**params, "_meta": meta}
        if self._turn is None:
            return await self._relay(method, params, ctx)
        async with self._turn:
            return await self._relay(method, params, ctx)

    def _build_call_meta(self, method: str, ctx: RunningCall) -> dict[str, Any]:
        """Return the `_meta` of a client's request, with the keys of this connection instead of the client's."""
        meta = {key: value for key, value in ctx.meta.items() if key not in _CONNECTION_KEYS}
        if not self.is_stateless:
            return meta
        capabilities = dict(ctx.capabilities)
        if method == "tools/call":
            capabilities["extensions"] = _EXTENSIONS
        meta |= self._build_envelope(capabilities)
        # A client of the handshake era has no level in its requests. The bridge selects messages by the level of the
        # client's session, so it needs all of them.
        default_level = None if has_feature(ctx.protocol_version, STATELESS) else "debug"
        level = ctx.meta.get(LOG_LEVEL, default_level)
        if level:
            meta[LOG_LEVEL] = level
        return meta

    async def _relay(self, method: str, params: dict[str, Any], ctx: RunningCall) -> Mapping[str, Any]:
        call = RelayedCall(ctx, self._tasks, self.channel.stream, self.name)
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
        """Receive changes of these resources, or of all lists, until the stream of a stateless server ends.

        `on_open` is called once the server has acknowledged a stream for resources. Raises RpcError.
        """
        self._on_open = on_open or self._on_open
        notifications: dict[str, Any] = {"toolsListChanged": True, "promptsListChanged": True}
        notifications["resourcesListChanged"] = True
        if uris:
            notifications = {RESOURCES: list(uris)}
        await self.send_request("subscriptions/listen", {"notifications": notifications})

    def handle_request(self, request: IncomingRequest) -> Any:
        """Serve a request of the server: a ping, or a question for the client of the call in flight."""
        if request.method == "ping":
            return {}
        if request.method not in _QUESTIONS:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {request.method}")
        call = request.stream if isinstance(request.stream, RelayedCall) else self._find_call()
        if call is None:
            if not self._calls:
                raise RpcError(INTERNAL_ERROR, "No call is in flight, so there is no client to ask.")
            self._turn = self._turn or anyio.Lock()
            raise RpcError(INTERNAL_ERROR, "The question cannot be assigned to one of the calls in flight. Ask again.")
        return call.answer(request.method, request.params)

    def handle_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """Handle a notification of the server; unknown ones are ignored."""
        if method == LOG_MESSAGE:
            call = self._find_call()
            if call is not None:
                call.report_log(params)
        elif method in _LIST_CHANGES:
            self._listener.handle_list_change()
        elif method == ACKNOWLEDGED and RESOURCES in (params.get("notifications") or ()):
            self._on_open()
        elif method == "notifications/resources/updated" and isinstance(params.get("uri"), str):
            self._listener.handle_resource_update(params["uri"])

    def handle_message(self, message: Message, origin: Any = None) -> bool:
        """Handle a message of the server. Return False for an unexpected response.

        A message on the stream of a call belongs to that call. `origin` is the id of its request, or None.
        """
        call = None
        if origin is not None:
            call = next((candidate for candidate in self._calls if candidate.request_id == origin), None)
        if call is not None and message.get("method") == LOG_MESSAGE:
            call.report_log(message.get("params") or {})
            return True
        return self.connection.receive(message, call)

    def _read_error(self, error: RpcError) -> RpcError:
        """Return the error for a client. If the server no longer speaks the version, end the session.

        The code NOT_RECEIVED then means that the request can be sent again in the next session.
        """
        other_versions = {*_list_supported(error, HANDSHAKE_VERSIONS), *_list_supported(error, STATELESS_VERSIONS)}
        if error.code == UNSUPPORTED_VERSION and other_versions - {self.version}:
            reason = f"the server no longer speaks version {self.version} of the protocol"
            self._on_rejection(reason)
            return RpcError(NOT_RECEIVED, reason)
        return screen_error(error)

    async def _negotiate_stateless(self) -> bool:
        """Return whether the server has agreed upon a stateless version in time."""
        self._set_version(STATELESS_VERSIONS[-1])
        self._tasks.spawn(self._run_discovery)
        with anyio.move_on_after(PROBE_TIMEOUT):
            await self._discovery_ended.wait()
        if isinstance(self._discovery, RpcError) and self._discovery.code in (CONNECTION_CLOSED, NOT_RECEIVED):
            raise self._discovery
        if self._adopt_discovery():
            return True
        self._set_version("")
        return False

    async def _run_discovery(self) -> None:
        """Send server/discover, and send it again if the server rejects the version and names others."""
        for _ in range(2):
            try:
                params = {"_meta": self._build_envelope({})}
                self._discovery = await self.connection.request("server/discover", params)
                break
            except RpcError as error:
                self._discovery = error
                other_versions = _list_supported(error, STATELESS_VERSIONS)
                if error.code != UNSUPPORTED_VERSION or not other_versions:
                    break
                self._set_version(other_versions[-1])
        self._discovery_ended.set()

    def _adopt_discovery(self) -> bool:
        """Use the result of server/discover. Return False if there is none with a version the bridge speaks."""
        if not isinstance(self._discovery, Mapping):
            return False
        common_versions = _list_supported(self._discovery, STATELESS_VERSIONS)
        if not common_versions:
            return False
        self._adopt(common_versions[-1], self._discovery)
        return True

    def _set_version(self, version: str) -> None:
        self.version = version
        self.channel.adopt_version(version)

    def _adopt(self, version: str, result: Mapping[str, Any]) -> None:
        self._set_version(version)
        self.capabilities = _get_mapping(result, "capabilities")
        self.info = _get_mapping(result, "serverInfo")
        if self.is_stateless and isinstance(result.get("_meta"), Mapping):
            self.info = _get_mapping(result["_meta"], SERVER_INFO)
        instructions = result.get("instructions")
        self.instructions = instructions if isinstance(instructions, str) else ""

    def _build_envelope(self, capabilities: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keys of `_meta` that every stateless request needs: the version, the client and capabilities."""
        client_capabilities = {name: capabilities[name] for name in _RELAYED_CAPABILITIES if name in capabilities}
        return {PROTOCOL_VERSION: self.version, CLIENT_INFO: _CLIENT, CLIENT_CAPABILITIES: client_capabilities}

    def _find_call(self) -> RelayedCall | None:
        """Return the call that a question or log message over a pipe concerns, or None if it is uncertain.

        If all calls in flight are of one client, it is the latest of them.
        """
        if not self._calls:
            return None
        last = self._calls[-1]
        if len(self._calls) == 1 or self._has_one_client:
            return last
        owners = {(call.ctx.session, call.ctx.client, call.ctx.principal) for call in self._calls}
        # Calls without a session are of one client only if there is only one, as over stdio (`client` is None).
        if len(owners) == 1 and (last.ctx.session or last.ctx.client is None):
            return last
        return None


def _list_supported(response: Any, versions: Sequence[str]) -> list[str]:
    """Return those of `versions` that a response names: a result of server/discover, or an error about the version."""
    names = None
    if isinstance(response, RpcError):
        if isinstance(response.data, Mapping):
            names = response.data.get("supported")
    elif isinstance(response, Mapping):
        names = response.get("supportedVersions")
    if not isinstance(names, list):
        return []
    return [version for version in versions if version in names]


def _get_mapping(result: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = result.get(key)
    return value if isinstance(value, Mapping) else {}


def _measure_entry(entry: Any) -> int | None:
    """Return the size of an entry of a list in bytes, or None if it is invalid or nested too deeply."""
    if not isinstance(entry, Mapping):
        return None
    try:
        # In a response, the entry is inside of further lists and objects, so it is measured with some around it.
        return len(dump_json([[[[[entry]]]]]))
    except TypeError:
        logger.warning("an entry of a list is nested too deeply, and is left out")
        return None


_QUESTIONS = frozenset({"elicitation/create", "sampling/createMessage", "roots/list"})
_LIST_CHANGES = frozenset(f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources"))
_CONNECTION_KEYS = frozenset({"progressToken", PROTOCOL_VERSION, CLIENT_INFO, CLIENT_CAPABILITIES, LOG_LEVEL})
"""The keys of `_meta` that concern one connection only."""
