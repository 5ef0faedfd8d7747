"""Used states are never forgotten, and no client's unanswered questions keep out those of others."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from mcp_bridge import CallContext, Form, ToolRegistry, tool
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._contracts.identity import Identity
from mcp_bridge._contracts.state import State
from mcp_bridge._protocol.peer.connection import IncomingRequest, Message
from mcp_bridge._server.calls import rounds
from mcp_bridge._server.questions.request_state import StateUse, UsedStates
from mcp_bridge._storage.stores.memory import MemoryStore
from mcp_bridge.questions import NeedsInput
from tests.kits.constants import make_envelope
from tests.kits.loops import BOTH_LOOPS
from tests.kits.questions.asking_kit import (
    ALL_CAPABILITIES,
    INVALID_STATE,
    NAME_SCHEMA,
    accept,
    get_code,
    get_text,
    is_idle,
)

pytestmark = BOTH_LOOPS
ENVELOPE = make_envelope(ALL_CAPABILITIES)
ANSWER = {"name": accept(name="Ada")}
ANN, BOB = "principal/ann", "principal/bob"


class NoStream:
    """A message stream for requests without streamed messages."""

    def send(self, message: Message) -> None:
        """Drop it."""

    def finish(self, response: Message | None) -> None:
        """Drop it."""

    async def drain(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


class Server:
    """An endpoint for requests of several clients; `ran` has the answers to its tools."""

    def __init__(self, result: int = 1 << 20, **state: Any) -> None:
        self.ran: list[str] = []
        registry = ToolRegistry()
        self._ids = itertools.count(1)

        @tool(registry=registry)
        async def ask(ctx: CallContext) -> str:
            """Ask."""
            self.ran.append((await ctx.ask("Who?", NAME_SCHEMA, key="name")).content["name"])
            return self.ran[-1]

        @tool(registry=registry)
        def need(ctx: CallContext) -> Any:
            """Ask by a result, so that the call can restart."""
            if not ctx.answers:
                return NeedsInput({"name": Form("Who?", NAME_SCHEMA)})
            self.ran.append(ctx.answers["name"].content["name"])
            return self.ran[-1]

        @tool(registry=registry)
        def write(size: int) -> str:
            """Return a long text."""
            return "x" * size

        self.bridge = Bridge(registry, identity=Identity(result=result), state=State(**state))

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[Server]:
        async with self.bridge.run_sources(), anyio.create_task_group() as tasks:
            await tasks.start(self.bridge.endpoint.run)
            yield self
            tasks.cancel_scope.cancel()

    async def call(self, client: str | None, name: str = "ask", state: str | None = None, **arguments: Any) -> Any:
        """Return the result of a call, or its error. With a state, the call goes on with the answer."""
        params: dict[str, Any] = {"name": name, "arguments": arguments, "_meta": ENVELOPE}
        if state is not None:
            params |= {"requestState": state, "inputResponses": ANSWER}
        request = IncomingRequest(next(self._ids), "tools/call", params, NoStream(), client=client)
        response = await request.run(self.bridge.endpoint.handle_stateless(request))
        assert response is not None
        return response.get("result", response.get("error"))

    async def ask(self, client: str | None, name: str = "ask") -> str:
        """Call a tool with a question, and return the state."""
        result = await self.call(client, name)
        assert result["resultType"] == "input_required", result
        return str(result["requestState"])


@pytest.mark.parametrize("store", [None, MemoryStore], ids=["default", "configured"])
async def test_a_used_request_state_stays_used_however_much_other_data_is_stored(store: Any) -> None:
    async with Server(result=1000, store=store and store(max_bytes=100_000)).serve() as server:
        state = await server.ask(ANN, "need")
        assert get_text(await server.call(ANN, "need", state)) == "Ada"
        for _ in range(80):
            await server.call(ANN, "write", size=1_000_000)
        assert await server.call(ANN, "need", state) == INVALID_STATE
        assert server.ran == ["Ada"]


async def test_new_questions_are_rejected_when_no_more_uses_can_be_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "MARKS", 4)
    async with Server(suspended=2).serve() as server:
        states = []
        for client in (ANN, ANN, BOB):
            states.append(await server.ask(client))
            assert get_text(await server.call(client, state=states[-1])) == "Ada"
        last = await server.ask(BOB)
        rejection = await server.call("principal/eve")
        assert get_code(rejection) == "overloaded"
        assert "Retry later" in get_text(rejection)
        # The accepted question can still be answered.
        assert get_text(await server.call(BOB, state=last)) == "Ada"
        assert get_code(await server.call("principal/eve")) == "overloaded"
        assert [await server.call(ANN, state=state) for state in states] == [INVALID_STATE] * 3
        assert server.ran == ["Ada"] * 4
        # Wait for the cleanup of the rejected calls.
        await anyio.wait_all_tasks_blocked()
        assert is_idle(server.bridge)


async def test_uses_are_remembered_for_as_long_as_their_states_are_valid() -> None:
    time = 0.0
    usage = UsedStates(None, 600.0, limit=4, clock=lambda: time)
    assert [await usage.use(handle, ANN) for handle in ("a", "b", "a")] == [
        StateUse.FIRST,
        StateUse.FIRST,
        StateUse.REPEATED,
    ]
    # Ann uses half of the places.
    assert not usage.has_room(ANN)
    assert usage.has_room(BOB)
    assert not usage.has_room(BOB, reserved=2)
    assert [await usage.use(handle, BOB) for handle in ("c", "d", "e")][2] is StateUse.NO_ROOM
    # The clocks of instances may differ by a minute.
    time = 659.0
    assert await usage.use("a", ANN) is StateUse.REPEATED
    time = 660.0
    assert usage.has_room(ANN)
    assert await usage.use("e", BOB) is StateUse.FIRST


async def test_unanswered_questions_of_one_client_do_not_lock_out_another() -> None:
    async with Server(suspended=8).serve() as server:
        eves = [await server.ask("principal/eve") for _ in range(40)]
        states = [(client, await server.ask(client)) for client in (ANN, BOB)]
        eves += [await server.ask("principal/eve") for _ in range(40)]
        for client, state in states:
            assert get_text(await server.call(client, state=state)) == "Ada"
        assert get_code(await server.call("principal/eve", state=eves[0])) == "question_expired"
        assert get_text(await server.call("principal/eve", state=eves[-1])) == "Ada"


async def test_the_client_with_the_most_questions_loses_its_oldest_when_none_is_free() -> None:
    async with Server(suspended=4).serve() as server:
        anns = [await server.ask(ANN) for _ in range(3)]
        bobs = [await server.ask(BOB)]
        # This ends Ann's oldest call.
        bobs.append(await server.ask(BOB))
        # Including this one, Bob now has the most calls.
        bobs.append(await server.ask(BOB))
        results = [await server.call(ANN, state=state) for state in anns]
        results += [await server.call(BOB, state=state) for state in bobs]
        assert [get_code(item) for item in results] == ["question_expired", None, None, "question_expired", None, None]
        assert is_idle(server.bridge)


async def test_a_call_that_can_restart_is_evicted_first_and_loses_nothing() -> None:
    async with Server(suspended=2).serve() as server:
        restartable, starts = await server.ask(ANN, "need"), await server.ask(ANN)
        await server.ask(BOB)
        assert get_text(await server.call(ANN, "need", restartable)) == "Ada"
        assert get_text(await server.call(ANN, state=starts)) == "Ada"


async def test_unanswered_questions_do_not_lock_out_anonymous_clients() -> None:
    async with Server(suspended=4).serve() as server:
        states = [await server.ask("session/") for _ in range(20)]
        assert get_text(await server.call("session/", state=states[-1])) == "Ada"


async def test_a_client_that_has_saved_many_states_cannot_use_up_the_room_of_others() -> None:
    usage = UsedStates(None, 600.0, limit=4)
    uses = [await usage.use(f"ann {number}", ANN) for number in range(4)]
    assert uses == [StateUse.FIRST, StateUse.FIRST, StateUse.NO_ROOM, StateUse.NO_ROOM]
    assert await usage.use("bob", BOB) is StateUse.FIRST
