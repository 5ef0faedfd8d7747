"""Sends the same messages to the engine (mcp_bridge) and to the oracle (a server of the SDK), and collects responses.

A client sends back the request states of a server, and answers its requests by their ids. Both differ between the two
servers. So a line refers to the first, second or third state by any text, and `Correspondent` replaces the text by the
state that its server has sent as the first, second or third. It replaces ids such as `roots/list#1` in the same way.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import orjson
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from mcp_bridge._protocol.peer.connection import CANCELLED, Message
from mcp_bridge._protocol.peer.json_lines import dump_message, parse_message
from mcp_bridge._protocol.wire.meta_keys import SUBSCRIPTION_ID
from mcp_bridge._runtime.tasks import own_tasks
from mcp_bridge._server.endpoint import Endpoint
from tests.kits.oracle.oracle_offers import IDENTITY, make_registry
from tests.kits.oracle.oracle_server import OracleServer
from tests.kits.oracle.recordings import name_request

Json = dict[str, Any]
_RANDOM = re.compile(r"(reference |elicitationId\": \")[0-9a-f]+")
_STATE = "requestState"


class EngineTwin:
    """A client's connection to the engine. It is also the message stream to which the engine writes."""

    def __init__(self, endpoint: Endpoint, tasks: Any) -> None:
        self.server = endpoint
        self._sent: list[Json] = []
        self._client = endpoint.connect(self, tasks)

    def deliver(self, line: bytes) -> None:
        """Pass a line to the engine, as the stdio transport does."""
        message = parse_message(line)
        if isinstance(message, bytes):
            self._sent.append(json.loads(message))
        else:
            self._client.receive(message)

    def collect(self) -> list[Json]:
        """Return the engine's messages since the last time."""
        messages, self._sent = self._sent, []
        return messages

    def end(self) -> None:
        self._client.close()

    def send(self, message: Message) -> None:
        self._sent.append(json.loads(dump_message(message)))

    def finish(self, response: Message | None) -> None:
        if response is not None:
            self.send(response)

    async def drain(self) -> None:
        await anyio.lowlevel.checkpoint()

    async def close(self) -> None:
        """Do nothing: there is no stream to resume."""


class OracleTwin:
    """A client's connection to the oracle, over memory streams."""

    def __init__(self, server: OracleServer) -> None:
        self.server = server
        self._to_server, self.read = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
        self.write, self._from_server = anyio.create_memory_object_stream[SessionMessage](math.inf)

    def deliver(self, line: bytes) -> None:
        """Pass a line to the SDK's server, as its stdio transport does."""
        try:
            message = jsonrpc_message_adapter.validate_json(line.decode(errors="replace"), by_name=False)
            self._to_server.send_nowait(SessionMessage(message))
        except (ValidationError, UnicodeEncodeError) as error:
            self._to_server.send_nowait(error)

    def collect(self) -> list[Json]:
        """Return the messages of the SDK's server since the last time."""
        messages: list[Json] = []
        while True:
            try:
                message = self._from_server.receive_nowait().message
            except (anyio.WouldBlock, anyio.EndOfStream):
                return messages
            messages.append(json.loads(message.model_dump_json(by_alias=True, exclude_unset=True)))

    def end(self) -> None:
        for stream in (self._to_server, self.read, self.write, self._from_server):
            stream.close()


@dataclass(frozen=True)
class Outcome:
    """The messages of each server in response to one line, in groups.

    `message` is None for a line that is no object. Before the line, there had been a handshake if `is_initialized`, and
    the requests in `in_flight` had no response. Over HTTP, `statuses` are those of the engine and the oracle.
    """

    line: bytes
    message: Json | None
    engine: Mapping[str, list[Json]]
    oracle: Mapping[str, list[Json]]
    is_initialized: bool
    in_flight: Collection[Any]
    statuses: tuple[int, int] = (0, 0)

    @property
    def is_equal(self) -> bool:
        return self.engine == self.oracle and self.statuses[0] == self.statuses[1]


class Correspondent:
    """A client's knowledge of one server: the request states, and the ids of the server's requests.

    Both differ between servers, so messages to compare have `<state>` and ids such as `roots/list#1` instead.
    """

    def __init__(self, twin: EngineTwin | OracleTwin) -> None:
        self._twin = twin
        self._states: list[str] = []
        self._ids: dict[str, Any] = {}

    def close_subscriptions(self) -> None:
        self._twin.server.close_subscriptions()

    def deliver(self, line: bytes, message: Json | None, state: int | None) -> None:
        """Pass a line to the server, with the server's own request state and id of a request.

        `state` is the number of the request state in the line, in the order of the states in all lines; None without
        one.
        """
        if message is not None and state is not None and state < len(self._states):
            line = orjson.dumps({**message, "params": {**message["params"], _STATE: self._states[state]}})
        if message is not None and "method" not in message and str(message.get("id")) in self._ids:
            line = orjson.dumps({**message, "id": self._ids[message["id"]]})
        self._twin.deliver(line)

    def collect(self) -> dict[str, list[Json]]:
        """Return the server's messages in groups. Their order counts only within a group."""
        groups: defaultdict[str, list[Json]] = defaultdict(list)
        for message in self._twin.collect():
            params = message.get("params") or {}
            if "method" not in message:
                key = f"response to {message['id']!r}"
            elif "id" in message:
                key = f"request {message['method']}"
            elif "progressToken" in params:
                key = f"progress of {params['progressToken']!r}"
            else:
                key = f"{message['method']} of {(params.get('_meta') or {}).get(SUBSCRIPTION_ID)!r}"
            groups[key].append(self._normalize(message, params))
        return dict(groups)

    def _normalize(self, message: Json, params: Json) -> Json:
        """Replace values that differ between servers. The text of an error is free."""
        if "error" in message:
            return {**message, "error": {key: value for key, value in message["error"].items() if key != "message"}}
        result = message.get("result")
        if isinstance(result, dict) and isinstance(result.get(_STATE), str):
            self._states.append(result[_STATE])
            message = {**message, "result": {**result, _STATE: "<state>"}}
        if "method" in message and "id" in message:
            name = name_request(message["method"], self._ids)
            self._ids[name] = message["id"]
            message = {**message, "id": name}
        elif message.get("method") == CANCELLED:
            names = [name for name, number in self._ids.items() if number == params["requestId"]]
            # The reason is free text, so leave it out.
            message = {**message, "params": {"requestId": names}}
        return json.loads(_RANDOM.sub(r"\g<1>0", json.dumps(message)))


class TwinServers:
    """One client's connection to both servers."""

    def __init__(self, engine: EngineTwin, oracle: OracleTwin) -> None:
        self._engine, self._oracle = Correspondent(engine), Correspondent(oracle)
        self._states: list[str] = []
        self._is_initialized = False
        self._in_flight: list[Any] = []

    async def exchange(self, line: bytes) -> Outcome:
        """Send a line to both servers and wait until neither has anything left to do."""
        message = _read_object(line)
        params = (message or {}).get("params")
        state = params.get(_STATE) if isinstance(params, dict) else None
        if isinstance(state, str) and state not in self._states:
            self._states.append(state)
        number = self._states.index(state) if isinstance(state, str) else None
        for server in (self._engine, self._oracle):
            server.deliver(line, message, number)
        outcome = await self._collect(line, message)
        if outcome.is_equal:
            self._note_request(outcome)
        return outcome

    async def close_subscriptions(self) -> Outcome:
        """End the listen streams of both servers."""
        for server in (self._engine, self._oracle):
            server.close_subscriptions()
        return await self._collect(b"", None)

    async def _collect(self, line: bytes, message: Json | None) -> Outcome:
        await anyio.wait_all_tasks_blocked()
        messages = self._engine.collect(), self._oracle.collect()
        return Outcome(line, message, *messages, self._is_initialized, list(self._in_flight))

    def _note_request(self, outcome: Outcome) -> None:
        """Remember the state of the client's requests, which is the same on both servers."""
        message = outcome.message or {}
        if "method" in message and "id" in message:
            self._in_flight.append(message["id"])
        responses = [sent for group in outcome.engine.values() for sent in group if "method" not in sent]
        ids = [sent["id"] for sent in responses]
        if message.get("method") == CANCELLED and isinstance(message.get("params"), dict):
            ids.append(message["params"].get("requestId"))
        self._in_flight = [number for number in self._in_flight if number not in ids]
        self._is_initialized |= message.get("method") == "initialize" and any("result" in sent for sent in responses)


@asynccontextmanager
async def connect_twins() -> AsyncIterator[TwinServers]:
    """Connect a client to a new engine and a new oracle."""
    endpoint, oracle = Endpoint(make_registry(), IDENTITY), OracleTwin(OracleServer(make_registry(), IDENTITY))
    async with anyio.create_task_group() as group, own_tasks() as tasks:
        await group.start(endpoint.run)
        group.start_soon(oracle.server.run, oracle.read, oracle.write)
        engine = EngineTwin(endpoint, tasks)
        try:
            yield TwinServers(engine, oracle)
        finally:
            engine.end()
            oracle.end()
            group.cancel_scope.cancel()


def _read_object(line: bytes) -> Json | None:
    try:
        message = orjson.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None
