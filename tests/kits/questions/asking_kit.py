"""What the tests of questions share: raw rounds of the stateless era over real bytes, and what they come to."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import anyio

from mcp_bridge import ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._contracts.identity import Identity
from mcp_bridge._runtime.stdio_descriptors import Descriptor, StdioPipes
from mcp_bridge._transports import stdio
from mcp_bridge.middleware import Pipeline
from mcp_bridge.serving import State
from tests.kits.constants import CLIENT_INFO, META_PREFIX, STATELESS, TIMEOUT

EVERYTHING: Any = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}, "context": {}}, "roots": {}}
REFUSED = {
    "code": -32602,
    "message": "Invalid or expired requestState",
    "data": {"reason": "invalid_request_state"},
}
DEEP = "what nests deep"
NAME: Any = {"type": "object", "properties": {"name": {"type": "string", "minLength": 2}}, "required": ["name"]}
Json = dict[str, Any]


def said(result: Any) -> str:
    """The text of a result, of the official client or raw."""
    content = result["content"] if isinstance(result, Mapping) else result.content
    first = content[0]
    return str(first["text"] if isinstance(first, Mapping) else first.text)


def code_of(result: Any) -> str | None:
    """The stable code of a failed result, of the official client or raw; None for one that succeeded."""
    raw = result if isinstance(result, Mapping) else result.model_dump(by_alias=True)
    return raw["_meta"]["mcp-bridge/code"] if raw.get("isError") else None


def accept(**content: Any) -> Json:
    """A raw answer: accepted."""
    return {"action": "accept", "content": content}


def sampled(text: str) -> Json:
    """A raw answer: what a model said."""
    return {"role": "assistant", "content": {"type": "text", "text": text}, "model": "m-1"}


def bridge_of(registry: ToolRegistry, *, name: str = "tests", **state: Any) -> Bridge:
    """A bridge whose questions wait as `state` says."""
    return Bridge(registry, identity=Identity(name=name), state=State(**state))


def governed(*middleware: Any, timeout: float | None = 60.0) -> ToolRegistry:
    """An empty registry with this policy."""
    return ToolRegistry(pipeline=Pipeline(middleware, timeout=timeout))


class Talk:
    """A client that writes bytes and keeps every message it hears. `capabilities` go with each stateless request."""

    def __init__(self, to_server: int, from_server: int, *, version: str, capabilities: Json) -> None:
        self.version, self.capabilities = version, capabilities
        self.stateless = version == STATELESS
        self.heard: list[Json] = []
        self._to_server, self._sink, self._source = to_server, Descriptor(to_server), Descriptor(from_server)
        self._ids = itertools.count(1)
        self._news = anyio.Event()
        self._open, self._over = True, False
        self._taken: list[Any] = [None]

    async def read(self) -> None:
        """Hear everything, until the server leaves."""
        rest = b""
        while data := await self._source.read():
            *lines, rest = (rest + data).split(b"\n")
            self.heard += [json.loads(line) for line in lines]
            self._wake()
        self._over = True
        self._wake()

    async def hello(self) -> None:
        """Begin, where this era has a beginning."""
        if not self.stateless:
            params = {"protocolVersion": self.version, "capabilities": self.capabilities, "clientInfo": CLIENT_INFO}
            assert "result" in await self.get("initialize", params)
            await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def send(self, message: Any) -> None:
        """Write a message as it is; DEEP in it stands for what nests as deep as can be read."""
        text = json.dumps(message).replace(json.dumps(DEEP), "[" * 1000 + "]" * 1000)
        with anyio.fail_after(TIMEOUT):
            await self._sink.write(text.encode() + b"\n")

    async def ask(self, method: str, params: Mapping[str, Any], meta: Mapping[str, Any] | None = None) -> int:
        """Send a request of this era; its id."""
        envelope = {
            f"{META_PREFIX}protocolVersion": STATELESS,
            f"{META_PREFIX}clientInfo": CLIENT_INFO,
            f"{META_PREFIX}clientCapabilities": self.capabilities,
        }
        given = {**(envelope if self.stateless else {}), **(meta or {})}
        number = next(self._ids)
        params = {**params, **({"_meta": given} if given else {})}
        await self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    async def get(self, method: str, params: Mapping[str, Any], meta: Mapping[str, Any] | None = None) -> Json:
        """The whole answer to a request."""
        return await self.answer(await self.ask(method, params, meta))

    async def answer(self, number: int) -> Json:
        """The answer that has this id."""
        return await self.until(lambda message: "method" not in message and message.get("id") == number)

    async def until(self, fits: Callable[[Json], bool]) -> Json:
        """The first message heard that fits."""
        with anyio.fail_after(TIMEOUT):
            while True:
                for message in self.heard:
                    if fits(message):
                        return message
                assert not self._over, f"the server left; it had said {self.heard}"
                await self._news.wait()

    async def question(self) -> Json:
        """The next request of a server of the handshake era."""
        question = await self.until(lambda message: "method" in message and message.get("id") not in self._taken)
        self._taken.append(question["id"])
        return question

    async def reply(self, question: Json, **body: Any) -> None:
        """Answer a request of the server, with a `result` or an `error`."""
        await self.send({"jsonrpc": "2.0", "id": question["id"], **body})

    async def cancel(self, number: int) -> None:
        """Give a request up."""
        await self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})

    def calling(self, name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> Rounds:
        """A tools/call, to be made in rounds."""
        return Rounds(self, "tools/call", {"name": name, "arguments": dict(arguments or {})}, **options)

    def rounds(self, method: str, **params: Any) -> Rounds:
        """Another request, to be made in rounds."""
        return Rounds(self, method, params)

    def hang_up(self) -> None:
        """End the server's input."""
        if self._open:
            self._open = False
            os.close(self._to_server)

    def _wake(self) -> None:
        self._news.set()
        self._news = anyio.Event()


class Rounds:
    """One call of the stateless era, round after round. `state` and `questions` are what the last one brought."""

    def __init__(self, talk: Talk, method: str, params: Mapping[str, Any], state: str | None = None) -> None:
        self._talk, self._method, self._params = talk, method, params
        self.state = state
        self.questions: Json = {}

    def elsewhere(self, talk: Talk) -> Rounds:
        """The same call, at the same point, with another server."""
        return Rounds(talk, self._method, self._params, self.state)

    async def begin(self, responses: Any = None, *, meta: Mapping[str, Any] | None = None) -> int:
        """Send the next round; its id."""
        given = {"inputResponses": responses} if responses is not None else {}
        given |= {"requestState": self.state} if self.state is not None else {}
        return await self._talk.ask(self._method, {**self._params, **given}, meta)

    async def end(self, number: int) -> Json:
        """What a round came to: a result or an error."""
        answer = await self._talk.answer(number)
        result: Json = answer.get("result", {})
        if result.get("resultType") == "input_required":
            self.state, self.questions = result["requestState"], result["inputRequests"]
        return answer

    async def go(self, responses: Any = None, *, meta: Mapping[str, Any] | None = None) -> Json:
        """The next round's answer."""
        return await self.end(await self.begin(responses, meta=meta))

    async def asks(self, responses: Any = None, **options: Any) -> Json:
        """The questions that the next round brings, by name; it must bring some."""
        answer = await self.go(responses, **options)
        assert answer.get("result", {}).get("resultType") == "input_required", answer
        return self.questions

    async def ends(self, responses: Any = None, **options: Any) -> Json:
        """The result that the next round brings; it must bring one."""
        answer = await self.go(responses, **options)
        assert answer.get("result", {}).get("resultType") == "complete", answer
        result: Json = answer["result"]
        return result

    async def fails(self, responses: Any = None, **options: Any) -> Json:
        """The error that the next round brings; it must bring one."""
        answer = await self.go(responses, **options)
        assert "error" in answer, answer
        error: Json = answer["error"]
        return error


@contextlib.asynccontextmanager
async def talking(
    tools: ToolRegistry | Bridge, *, version: str = STATELESS, capabilities: Json = EVERYTHING, drain: float = TIMEOUT
) -> AsyncIterator[Talk]:
    """A raw connection to a server in this process. At the end of the block input ends, and serving with it."""
    bridge = tools if isinstance(tools, Bridge) else bridge_of(tools)
    from_client, to_server = os.pipe()
    from_server, to_client = os.pipe()
    talk = Talk(to_server, from_server, version=version, capabilities=capabilities)

    async def serve() -> None:
        try:
            await stdio.serve(bridge.endpoint, StdioPipes(from_client, to_client), drain=drain, signals=False)
        finally:
            os.close(to_client)

    failed: list[Exception] = []
    try:
        async with bridge.run_sources(), anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            tasks.start_soon(talk.read)
            try:
                await talk.hello()
                yield talk
            except Exception as error:  # a failed assert should look like one, not like a group of one
                failed.append(error)
            finally:
                talk.hang_up()
                tasks.cancel_scope.deadline = anyio.current_time() + TIMEOUT
    finally:
        talk.hang_up()
        os.close(from_server)
        os.close(from_client)
    if failed:
        raise failed[0]


async def soon(event: anyio.Event) -> None:
    """Wait for what must happen, but not for ever."""
    with anyio.fail_after(TIMEOUT):
        await event.wait()


def idle(bridge: Bridge) -> bool:
    """Whether no call waits for answers, and none has a place taken."""
    calls = bridge.endpoint.calls._rounds._suspended
    return not calls._suspended and not calls._asking


def names(questions: Mapping[str, Any]) -> Sequence[str]:
    """The names of the questions that were asked, sorted."""
    return sorted(questions)
