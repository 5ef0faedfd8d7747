"""The legacy HTTP+SSE transport (MCP 2024-11-05).

Each client opens one event stream at /sse, which has all messages of the server. Its first event names the address for
messages of the client: /messages with the id of the stream.
"""

from __future__ import annotations

from urllib.parse import parse_qs, quote
from uuid import uuid4

from mcp_bridge._protocol.peer.connection import Message, MessageStream
from mcp_bridge._protocol.peer.json_lines import dump_message
from mcp_bridge._server.endpoint import ClientConnection, Endpoint
from mcp_bridge._transports.http.admission import Admission
from mcp_bridge._transports.http.event_stream import EventStream, format_event
from mcp_bridge._transports.http.request import HttpRequest, make_client_key, make_rejection

MESSAGES_PATH = "/messages"


class SseEndpoint:
    """Serves the streams of clients, at most `limit` of them, and the messages of these clients."""

    def __init__(self, endpoint: Endpoint, admission: Admission, *, limit: int, id_prefix: str = "") -> None:
        self._endpoint = endpoint
        self._admission = admission
        self._limit = limit
        self._id_prefix = id_prefix
        # The stream, the connection and the principal of each client, by the id of the stream.
        self._clients: dict[str, tuple[SseStream, ClientConnection, str | None]] = {}

    async def serve_stream(self, request: HttpRequest) -> None:
        """Serve a client until it disconnects. Raises HttpRejection."""
        request.check_method("GET")
        self._admission.check_ending()
        if len(self._clients) >= self._limit:
            raise make_rejection(503, "Too many open streams. Close one, or raise http.sessions in the settings.")
        stream = SseStream(request)
        principal = request.read_principal()
        stream_id = f"{self._id_prefix}{uuid4().hex}"
        client = self._endpoint.connect(
            stream,
            self._admission.tasks,
            self._admission.counter,
            principal=principal,
            client=make_client_key(principal, stream_id),
            transport="sse",
        )
        self._clients[stream_id] = (stream, client, principal)
        address = f"{request.scope.get('root_path', '').rstrip('/')}{MESSAGES_PATH}"
        stream.events.put(format_event(f"{quote(address)}?session_id={stream_id}\n".encode(), name="endpoint"))
        try:
            await stream.events.begin()
            await stream.events.attend()
        finally:
            del self._clients[stream_id]
            client.close()

    async def serve_message(self, request: HttpRequest) -> None:
        """Accept one message. Raises HttpRejection."""
        request.check_method("POST")
        request.check_content_type()
        message = await self._admission.read_message(request, is_connected=True)
        query = parse_qs(request.scope["query_string"].decode("latin-1"))
        stream_id = query.get("session_id", [""])[0]
        if len(stream_id) != len(self._id_prefix) + 32:
            raise make_rejection(400, "The query has no valid session_id.")
        _, client, principal = self._clients.get(stream_id, (None, None, None))
        # For another principal, the stream does not exist.
        if client is None or principal != request.read_principal():
            raise make_rejection(404, "There is no stream with this session_id.")
        client.receive(message)
        await request.respond(202)

    def end_streams(self) -> None:
        """End every stream after its pending messages."""
        for stream, _, _ in self._clients.values():
            stream.events.end()


class SseStream(MessageStream):
    """The message stream of one client, for all its messages."""

    def __init__(self, request: HttpRequest) -> None:
        self.events = EventStream(request)

    def send(self, message: Message) -> None:
        line = dump_message(message)
        # `dump_message` drops a request or notification that JSON cannot express.
        if line:
            self.events.put(format_event(line))

    async def drain(self) -> None:
        await self.events.drain()
