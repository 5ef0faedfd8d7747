"""A client that sends any JSON-RPC message and records every message of the server, in order.

It shows what the official client hides: ids, the order of messages, notifications between them, malformed requests.
Each transport is a subclass that implements `send` and passes incoming messages to `record`.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import anyio
import anyio.abc

from tests.kits.constants import CLIENT_INFO, HANDSHAKE, TIMEOUT, make_envelope

Json = dict[str, Any]


@contextlib.asynccontextmanager
async def open_task_group() -> AsyncIterator[anyio.abc.TaskGroup]:
    """Cancel the tasks at the end of the block. An error of the block is raised as it is, not as a group."""
    errors: list[Exception] = []
    async with anyio.create_task_group() as tasks:
        try:
            yield tasks
        except Exception as error:
            errors.append(error)
        tasks.cancel_scope.cancel()
    if errors:
        raise errors[0]


class RawClient:
    """One connection. `capabilities` are declared in the handshake, or with each stateless request.

    `received` has all messages of the server; the `receive` methods return each of them once.
    """

    transport = ""

    def __init__(self, *, stateless: bool = False, capabilities: Mapping[str, Any] | None = None) -> None:
        self.stateless = stateless
        self.capabilities = dict(capabilities or {})
        self.received: list[Json] = []
        self.initialize_result: Json = {}
        self._unread: list[Json] = []
        self._ids = itertools.count(1)
        self._news = anyio.Event()
        self._is_closed = False

    async def initialize(self, version: str = HANDSHAKE) -> Json:
        """Do the handshake and return its result; the stateless era has none."""
        if not self.stateless:
            params = {"protocolVersion": version, "capabilities": self.capabilities, "clientInfo": CLIENT_INFO}
            self.initialize_result = await self.get_result("initialize", params)
            await self.notify("notifications/initialized")
        return self.initialize_result

    def make_request(
        self, method: str, params: Mapping[str, Any] | None = None, *, meta: Any = None, **fields: Any
    ) -> Json:
        """Return a request with the next id. `meta` extends its `_meta`; a value of None removes a key from it."""
        envelope = make_envelope(self.capabilities) if self.stateless else {}
        envelope.update(meta or {})
        envelope = {key: value for key, value in envelope.items() if value is not None}
        params = dict(params or {})
        if envelope:
            params["_meta"] = envelope
        request: Json = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, **fields}
        if params:
            request["params"] = params
        return request

    async def send(self, message: Any) -> None:
        """Send one message as it is."""
        raise NotImplementedError

    async def send_request(self, method: str, params: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Send a request and return its id."""
        request = self.make_request(method, params, **options)
        await self.send(request)
        return request["id"]

    async def send_call(self, name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Send a tools/call and return its id."""
        return await self.send_request("tools/call", {"name": name, "arguments": dict(arguments or {})}, **options)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        message: Json = {"jsonrpc": "2.0", "method": method}
        if params:
            message["params"] = dict(params)
        await self.send(message)

    async def cancel(self, request_id: int | str) -> None:
        """Cancel a request."""
        await self.notify("notifications/cancelled", {"requestId": request_id, "reason": "a test cancels it"})

    async def respond(self, request: Json, result: Any = None, *, error: Any = None) -> None:
        """Send the response to a request of the server."""
        body = {"result": result} if error is None else {"error": error}
        await self.send({"jsonrpc": "2.0", "id": request["id"], **body})

    async def request(self, method: str, params: Mapping[str, Any] | None = None, **options: Any) -> Json:
        """Send a request and return the whole response."""
        return await self.receive_response(await self.send_request(method, params, **options))

    async def get_result(self, method: str, params: Mapping[str, Any] | None = None, **options: Any) -> Json:
        """Send a request and return its result. It must succeed."""
        response = await self.request(method, params, **options)
        assert "error" not in response, response
        result: Json = response["result"]
        return result

    async def get_error(self, method: str, params: Mapping[str, Any] | None = None, **options: Any) -> Json:
        """Send a request and return its error. It must fail."""
        response = await self.request(method, params, **options)
        assert "result" not in response, response
        error: Json = response["error"]
        return error

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> Json:
        """Call a tool and return the result."""
        return await self.get_result("tools/call", {"name": name, "arguments": dict(arguments or {})}, **options)

    def start_call(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, state: str | None = None
    ) -> MultiRoundRequest:
        """Return a tools/call in rounds."""
        return MultiRoundRequest(self, "tools/call", {"name": name, "arguments": dict(arguments or {})}, state)

    def start_request(self, method: str, **params: Any) -> MultiRoundRequest:
        """Return any other request in rounds."""
        return MultiRoundRequest(self, method, params)

    async def subscribe_to_tools(self) -> Any:
        """Open a subscriptions/listen stream for changes of tools and return its id once it is acknowledged."""
        request_id = await self.send_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await self.receive_message("notifications/subscriptions/acknowledged")
        return request_id

    async def receive_response(self, request_id: int | str | None) -> Json:
        """Return the response with this id."""
        return await self.receive(lambda message: "method" not in message and message.get("id") == request_id)

    async def receive_message(self, method: str) -> Json:
        """Return the next notification, or request of the server, with this method."""
        return await self.receive(lambda message: message.get("method") == method)

    async def receive_request(self) -> Json:
        """Return the next request of the server."""
        return await self.receive(lambda message: "method" in message and "id" in message)

    async def receive(self, matches: Callable[[Json], bool]) -> Json:
        """Return the first unread message that matches, and leave the others unread."""
        with anyio.fail_after(TIMEOUT):
            while True:
                for index, message in enumerate(self._unread):
                    if matches(message):
                        return self._unread.pop(index)
                if self._is_closed:
                    raise EOFError(f"the server closed the connection after {self.received}")
                await self._wait_for_messages()

    async def wait_until_closed(self) -> None:
        """Wait until the server closes the connection."""
        with anyio.fail_after(TIMEOUT):
            while not self._is_closed:
                await self._wait_for_messages()

    async def receive_rest(self) -> list[Json]:
        """Wait until the server closes the connection and return all unread messages."""
        await self.wait_until_closed()
        messages, self._unread = self._unread, []
        return messages

    def list_notifications(self, method: str = "") -> list[Json]:
        """Return the notifications received so far, of one method or of all."""
        return [message for message in self.received if "id" not in message and method in ("", message["method"])]

    def list_requests(self) -> list[Json]:
        """Return the requests of the server received so far."""
        return [message for message in self.received if "id" in message and "method" in message]

    def record(self, message: Json) -> None:
        """Record an incoming message."""
        assert message["jsonrpc"] == "2.0", message
        self.received.append(message)
        self._unread.append(message)
        self._wake()

    def record_end(self) -> None:
        """Record the end of the connection."""
        self._is_closed = True
        self._wake()

    async def _wait_for_messages(self) -> None:
        await self._news.wait()

    def _wake(self) -> None:
        self._news.set()
        self._news = anyio.Event()


class MultiRoundRequest:
    """A stateless request in rounds (basic/patterns/mrtr).

    `state` and `questions` are the `requestState` and `inputRequests` of the last round.
    """

    def __init__(self, client: RawClient, method: str, params: Mapping[str, Any], state: str | None = None) -> None:
        self._client, self._method, self._params = client, method, params
        self.state = state
        self.questions: Json = {}

    def continue_on(self, client: RawClient) -> MultiRoundRequest:
        """Return the same request, in the same state, for another server."""
        return MultiRoundRequest(client, self._method, self._params, self.state)

    async def send(self, responses: Any = None, *, meta: Mapping[str, Any] | None = None) -> int:
        """Send the next round and return its id."""
        params = dict(self._params)
        if responses is not None:
            params["inputResponses"] = responses
        if self.state is not None:
            params["requestState"] = self.state
        return int(await self._client.send_request(self._method, params, meta=meta))

    async def receive(self, request_id: int) -> Json:
        """Return the response to a round."""
        response = await self._client.receive_response(request_id)
        result: Json = response.get("result", {})
        if result.get("resultType") == "input_required":
            self.state, self.questions = result["requestState"], result["inputRequests"]
        return response

    async def exchange(self, responses: Any = None, *, meta: Mapping[str, Any] | None = None) -> Json:
        """Send the next round and return its response."""
        return await self.receive(await self.send(responses, meta=meta))

    async def get_questions(self, responses: Any = None, **options: Any) -> Json:
        """Send the next round and return its questions by name. It must ask."""
        response = await self.exchange(responses, **options)
        assert response.get("result", {}).get("resultType") == "input_required", response
        return self.questions

    async def get_result(self, responses: Any = None, **options: Any) -> Json:
        """Send the last round and return its result. It must succeed."""
        response = await self.exchange(responses, **options)
        assert response.get("result", {}).get("resultType") == "complete", response
        result: Json = response["result"]
        return result

    async def get_error(self, responses: Any = None, **options: Any) -> Json:
        """Send the next round and return its error. It must fail."""
        response = await self.exchange(responses, **options)
        assert "error" in response, response
        error: Json = response["error"]
        return error
