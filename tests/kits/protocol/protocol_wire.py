"""Raw JSON-RPC with a server, whatever carries it: what the official client hides can be seen here."""

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
async def beside() -> AsyncIterator[anyio.abc.TaskGroup]:
    """Tasks beside the block, cancelled at its end; what fails in the block is raised as it is, not as a group."""
    failed: list[Exception] = []
    async with anyio.create_task_group() as tasks:
        try:
            yield tasks
        except Exception as error:
            failed.append(error)
        tasks.cancel_scope.cancel()
    if failed:
        raise failed[0]


class Wire:
    """A connection that writes any message and keeps everything it hears, in order.

    `stateless` tells the era, `capabilities` what this client declares: in the handshake or with each request.
    """

    transport = ""

    def __init__(self, *, stateless: bool, capabilities: Mapping[str, Any] | None = None) -> None:
        self.stateless = stateless
        self.capabilities = dict(capabilities or {})
        self.heard: list[Json] = []
        self.welcome: Json = {}
        self._unread: list[Json] = []
        self._ids = itertools.count(1)
        self._news = anyio.Event()
        self._ended = False

    async def send(self, message: Any) -> None:
        """Write one message as it is."""
        raise NotImplementedError

    async def cancel(self, request: int | str) -> None:
        """Give up a request, in the way of this transport."""
        await self.tell("notifications/cancelled", {"requestId": request, "reason": "a test changed its mind"})

    def take(self, message: Json) -> None:
        """Note a message that came in."""
        assert message["jsonrpc"] == "2.0", message
        self.heard.append(message)
        self._unread.append(message)
        self._wake()

    def over(self) -> None:
        """Nothing more will come in."""
        self._ended = True
        self._wake()

    async def hello(self, version: str = HANDSHAKE) -> None:
        """Begin: the handshake, where this era has one. Its result is in `welcome`."""
        if self.stateless:
            return
        params = {"protocolVersion": version, "capabilities": self.capabilities, "clientInfo": CLIENT_INFO}
        self.welcome = await self.result("initialize", params)
        await self.tell("notifications/initialized")

    def request(self, method: str, params: Mapping[str, Any] | None = None, *, meta: Any = None, **keys: Any) -> Json:
        """A request with an id of its own. `meta` is added to its `_meta`; a key whose value is None is left out."""
        given = {**(make_envelope(self.capabilities) if self.stateless else {}), **(meta or {})}
        given = {key: value for key, value in given.items() if value is not None}
        body = {**(params or {}), **({"_meta": given} if given else {})}
        message: Json = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, **keys}
        return {**message, "params": body} if body else message

    async def ask(self, method: str, params: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Send a request; its id."""
        request = self.request(method, params, **options)
        await self.send(request)
        return request["id"]

    async def get(self, method: str, params: Mapping[str, Any] | None = None, **options: Any) -> Json:
        """The whole answer to a request."""
        return await self.answer(await self.ask(method, params, **options))

    async def result(self, method: str, params: Mapping[str, Any] | None = None, **options: Any) -> Json:
        """The result of a request that must succeed."""
        answer = await self.get(method, params, **options)
        assert "error" not in answer, answer
        result: Json = answer["result"]
        return result

    async def error(self, method: str, params: Mapping[str, Any] | None = None, **options: Any) -> Json:
        """The error of a request that must fail."""
        answer = await self.get(method, params, **options)
        assert "result" not in answer, answer
        error: Json = answer["error"]
        return error

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> Json:
        """The result of a tools/call."""
        return await self.result("tools/call", {"name": name, "arguments": dict(arguments or {})}, **options)

    async def begin(self, name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Send a tools/call; its id."""
        return await self.ask("tools/call", {"name": name, "arguments": dict(arguments or {})}, **options)

    async def tell(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        await self.send({"jsonrpc": "2.0", "method": method, **({"params": dict(params)} if params else {})})

    async def reply(self, request: Json, result: Mapping[str, Any]) -> None:
        """Answer a request of the server."""
        await self.send({"jsonrpc": "2.0", "id": request["id"], "result": dict(result)})

    async def answer(self, number: int | str) -> Json:
        """The answer that has this id."""
        return await self.until(lambda message: "method" not in message and message.get("id") == number)

    async def heard_from(self, method: str) -> Json:
        """The next notification, or request of the server, of this method."""
        return await self.until(lambda message: message.get("method") == method)

    async def until(self, fits: Callable[[Json], bool]) -> Json:
        """The first message not yet taken that fits; others stay for whoever wants them."""
        with anyio.fail_after(TIMEOUT):
            while True:
                for index, message in enumerate(self._unread):
                    if fits(message):
                        return self._unread.pop(index)
                if self._ended:
                    raise EOFError(f"the server left; it had said {self.heard}")
                await self._news.wait()

    async def left(self) -> None:
        """Wait until the server has nothing more to say."""
        with anyio.fail_after(TIMEOUT):
            while not self._ended:
                await self._news.wait()

    def notifications(self, method: str = "") -> list[Json]:
        """The notifications heard so far, of one method or all."""
        return [each for each in self.heard if "id" not in each and method in ("", each["method"])]

    def requests(self) -> list[Json]:
        """The requests of the server heard so far."""
        return [each for each in self.heard if "id" in each and "method" in each]

    def _wake(self) -> None:
        self._news.set()
        self._news = anyio.Event()
