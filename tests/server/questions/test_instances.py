"""Several instances: what was asked before a handler began is taken up by any of them, the rest only where it waits."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from mcp_bridge import CallContext, ToolCall, ToolResult
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._contracts.errors import ApprovalDeclined
from mcp_bridge._engine.authoring import tool
from mcp_bridge._storage.stores.memory import MemoryStore
from mcp_bridge.middleware import Stage
from mcp_bridge.serving import State, Store
from tests.kits.questions.asking_kit import (
    NAME,
    REFUSED,
    Talk,
    accept,
    bridge_of,
    code_of,
    governed,
    idle,
    names,
    said,
    talking,
)

KEYS = ("an old key of at least thirty-two bytes", "a new key of at least thirty-two bytes.")
YES, NO = {"action": "accept", "content": {}}, {"action": "decline"}


@dataclass
class Policy:
    """Asks two things before a tool runs; `decided` has what it decided, `asked` how often it began."""

    stage: Stage = Stage.DECIDE
    decided: list[str] = field(default_factory=list)
    began: int = 0

    async def __call__(self, call: ToolCall, ctx: CallContext, call_next: Any) -> ToolResult:
        self.began += 1
        if not await ctx.ask(f"Run {call.name}?", key="approve"):
            raise ApprovalDeclined("Somebody said no.")
        reason = await ctx.ask("Why?", NAME, key="reason")
        self.decided.append(reason.content["name"])
        result: ToolResult = await call_next(call, ctx)
        return result


class Instance:
    """A server with a governed tool, and one that asks itself; `ran` has what its handlers were called with."""

    def __init__(self, *, name: str = "tests", **state: Any) -> None:
        self.policy, self.ran = Policy(), []
        registry = governed(self.policy)

        @tool(registry=registry)
        def remove(what: str) -> str:
            """Removes."""
            self.ran.append(what)
            return f"{what} is gone"

        @tool(registry=registry)
        async def asks(ctx: CallContext) -> str:
            """Asks."""
            self.ran.append("asks")
            return (await ctx.ask("Sure?", key="sure")).action

        self.bridge: Bridge = bridge_of(registry, name=name, **{"keys": KEYS[:1], **state})


@contextlib.asynccontextmanager
async def two(**state: Any) -> AsyncIterator[tuple[Instance, Talk, Instance, Talk]]:
    """Two instances that share what `state` says, and a connection to each."""
    one, other = Instance(**state), Instance(**state)
    async with talking(one.bridge) as here, talking(other.bridge) as there:
        yield one, here, other, there


async def test_what_was_asked_on_one_instance_is_answered_on_another_and_the_handler_runs_once() -> None:
    async with two() as (one, here, other, there):
        call = here.calling("remove", {"what": "all"})
        assert names(await call.asks()) == ["approve"]
        call = call.elsewhere(there)
        assert names(await call.asks({"approve": YES})) == ["reason"]
        call = call.elsewhere(here)
        assert names(await call.asks()) == ["reason"]
        call = call.elsewhere(there)
        assert said(await call.ends({"reason": accept(name="old")})) == "all is gone"
        assert (one.ran, other.ran) == ([], ["all"])
        assert (one.policy.decided, other.policy.decided) == ([], ["old"])


async def test_a_person_who_says_no_says_it_on_every_instance() -> None:
    async with two() as (one, here, other, there):
        call = here.calling("remove", {"what": "all"})
        await call.asks()
        assert code_of(await call.elsewhere(there).ends({"approve": NO})) == "approval_declined"
        assert (one.ran, other.ran) == ([], [])


async def test_answers_that_do_not_fit_are_counted_on_all_instances_together() -> None:
    async with two() as (_, here, other, there):
        call = here.calling("remove", {"what": "all"})
        await call.asks()
        await call.asks({"approve": YES})
        call = call.elsewhere(there)
        questions = await call.asks({"reason": accept()})
        assert "$.name" in questions["reason"]["params"]["message"]
        call = call.elsewhere(here)
        await call.asks({"reason": accept(name=7)})
        call = call.elsewhere(there)
        assert code_of(await call.ends({"reason": accept()})) == "invalid_answer"
        assert other.ran == []


async def test_a_handler_that_had_begun_is_not_begun_again_elsewhere() -> None:
    async with two() as (one, here, other, there):
        call = here.calling("asks")
        await call.asks()
        await call.asks({"approve": YES})
        await call.asks({"reason": accept(name="old")})
        lost = await call.elsewhere(there).ends({"sure": YES})
        assert code_of(lost) == "question_expired"
        assert "retry the call" in said(lost).lower()
        assert (one.ran, other.ran, other.policy.began) == (["asks"], [], 0)
        assert said(await call.ends({"sure": YES})) == "accept"  # it still waits where it began


@pytest.mark.parametrize("other", [{"keys": KEYS[1:]}, {"keys": ()}, {"name": "another"}], ids=str)
async def test_instances_with_another_key_or_name_do_not_take_it_up(other: Any) -> None:
    one, stranger = Instance(), Instance(**other)
    async with talking(one.bridge) as here, talking(stranger.bridge) as there:
        call = here.calling("remove", {"what": "all"})
        await call.asks()
        assert await call.elsewhere(there).fails({"approve": YES}) == REFUSED
        assert stranger.policy.began == 0


async def test_keys_can_be_changed_while_serving() -> None:
    before, after = Instance(keys=KEYS[:1]), Instance(keys=KEYS[::-1])
    async with talking(before.bridge) as old, talking(after.bridge) as new:
        call = old.calling("remove", {"what": "all"})
        await call.asks()
        call = call.elsewhere(new)  # the old key opens
        await call.asks({"approve": YES})
        assert await call.elsewhere(old).fails({"reason": accept(name="old")}) == REFUSED  # the new one seals
        assert said(await call.ends({"reason": accept(name="old")})) == "all is gone"


async def test_with_a_shared_store_a_state_is_good_for_one_time_on_all_instances() -> None:
    store = MemoryStore()
    async with two(store=store) as (one, here, other, there):
        call = here.calling("remove", {"what": "all"})
        await call.asks()
        await call.asks({"approve": YES})
        used = call.elsewhere(there)
        assert said(await call.ends({"reason": accept(name="old")})) == "all is gone"
        assert await used.fails({"reason": accept(name="old")}) == REFUSED
        assert (one.ran, other.ran, other.policy.began) == (["all"], [], 0)


async def test_one_state_sent_to_two_instances_at_once_is_taken_by_one() -> None:
    store = MemoryStore()
    async with two(store=store) as (one, here, other, there):
        call = here.calling("remove", {"what": "all"})
        await call.asks()
        await call.asks({"approve": YES})
        copy = call.elsewhere(there)
        sent = [(each, await each.begin({"reason": accept(name="old")})) for each in (call, copy)]
        answers = [await each.end(number) for each, number in sent]
        assert sorted("error" in answer for answer in answers) == [False, True]
        assert [*one.ran, *other.ran] == ["all"]


async def test_a_question_survives_a_restart_where_the_keys_do() -> None:
    instance = Instance()
    async with talking(instance.bridge) as talk:
        call = talk.calling("remove", {"what": "all"})
        await call.asks()
        await call.asks({"approve": YES})
    reborn = Instance()
    async with talking(reborn.bridge) as talk:
        call = call.elsewhere(talk)
        assert said(await call.ends({"reason": accept(name="old")})) == "all is gone"
    assert (instance.ran, reborn.ran) == ([], ["all"])


async def test_a_call_that_made_room_for_another_is_taken_up_as_on_another_instance() -> None:
    instance = Instance(suspended=1)
    async with talking(instance.bridge) as talk:
        first = talk.calling("remove", {"what": "one"})
        await first.asks()
        await first.asks({"approve": YES})
        second = talk.calling("remove", {"what": "two"})
        await second.asks()
        assert said(await first.ends({"reason": accept(name="old")})) == "one is gone"
        await second.asks({"approve": YES})
        assert said(await second.ends({"reason": accept(name="new")})) == "two is gone"
        assert instance.ran == ["one", "two"]
        assert instance.policy.decided == ["old", "new"]
        assert idle(instance.bridge)


async def test_a_state_taken_up_elsewhere_still_belongs_to_its_request_alone() -> None:
    async with two() as (_, here, other, there):
        call = here.calling("remove", {"what": "one"})
        await call.asks()
        stolen = there.calling("remove", {"what": "two"}, state=call.state)
        assert await stolen.fails({"approve": YES}) == REFUSED
        assert other.policy.began == 0


async def test_a_store_that_fails_lets_no_state_through() -> None:
    class Broken:
        """A store that is away."""

        async def get(self, key: str) -> bytes | None:
            raise OSError("away")

        async def set(self, key: str, value: bytes, ttl: float) -> None:
            raise OSError("away")

        async def add(self, key: str, value: bytes, ttl: float) -> bool:
            raise OSError("away")

        async def delete(self, key: str) -> None:
            raise OSError("away")

    store = Broken()
    assert isinstance(store, Store)
    instance = Instance(store=store)
    assert instance.bridge.state == State(keys=KEYS[:1], store=store)
    async with talking(instance.bridge) as talk:
        call = talk.calling("remove", {"what": "all"})
        await call.asks()
        error = await call.fails({"approve": YES})
        assert error["code"] in (-32602, -32603)
        assert "away" not in str(error)
    assert instance.ran == []
