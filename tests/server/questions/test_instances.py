"""Several instances: any of them resumes questions before a handler, and only one resumes questions of a handler."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge import CallContext, ToolCall, ToolResult
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._contracts.errors import ApprovalDeclined
from mcp_bridge._engine.authoring import tool
from mcp_bridge._settings import load
from mcp_bridge._storage.stores.memory import MemoryStore
from mcp_bridge.middleware import Stage
from mcp_bridge.serving import State, Store
from tests.client.stdio_client import StdioClient
from tests.kits.questions.asking_kit import (
    INVALID_STATE,
    NAME_SCHEMA,
    accept,
    get_code,
    get_text,
    is_idle,
    list_names,
    make_bridge,
    make_registry,
    serve_client,
)

KEYS = ("an old key of at least thirty-two bytes", "a new key of at least thirty-two bytes.")
YES, NO = {"action": "accept", "content": {}}, {"action": "decline"}


@dataclass
class Policy:
    """A policy with a question before a tool runs. `decided` has its decisions, `began` the number of attempts."""

    stage: Stage = Stage.DECIDE
    decided: list[str] = field(default_factory=list)
    began: int = 0

    async def __call__(self, call: ToolCall, ctx: CallContext, call_next: Any) -> ToolResult:
        self.began += 1
        if not await ctx.ask(f"Run {call.name}?", key="approve"):
            raise ApprovalDeclined("The user declined.")
        reason = await ctx.ask("Why?", NAME_SCHEMA, key="reason")
        self.decided.append(reason.content["name"])
        result: ToolResult = await call_next(call, ctx)
        return result


class Instance:
    """A server with a governed tool, and one that asks a question; `ran` has the arguments of its handlers."""

    def __init__(self, *, name: str = "tests", **state: Any) -> None:
        self.policy, self.ran = Policy(), []
        registry = make_registry(self.policy)

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

        self.bridge: Bridge = make_bridge(registry, name=name, **{"keys": KEYS[:1], **state})


@contextlib.asynccontextmanager
async def connect_instances(**state: Any) -> AsyncIterator[tuple[Instance, StdioClient, Instance, StdioClient]]:
    """Yield two instances with this common state, and a connection to each."""
    first, second = Instance(**state), Instance(**state)
    async with serve_client(first.bridge) as first_client, serve_client(second.bridge) as second_client:
        yield first, first_client, second, second_client


async def test_a_question_of_one_instance_is_answered_on_another_and_the_handler_runs_once() -> None:
    async with connect_instances() as (first, first_client, second, second_client):
        call = first_client.start_call("remove", {"what": "all"})
        assert list_names(await call.get_questions()) == ["approve"]
        call = call.continue_on(second_client)
        assert list_names(await call.get_questions({"approve": YES})) == ["reason"]
        call = call.continue_on(first_client)
        assert list_names(await call.get_questions()) == ["reason"]
        call = call.continue_on(second_client)
        assert get_text(await call.get_result({"reason": accept(name="old")})) == "all is gone"
        assert (first.ran, second.ran) == ([], ["all"])
        assert (first.policy.decided, second.policy.decided) == ([], ["old"])


async def test_a_decline_of_the_user_counts_on_every_instance() -> None:
    async with connect_instances() as (first, first_client, second, second_client):
        call = first_client.start_call("remove", {"what": "all"})
        await call.get_questions()
        assert get_code(await call.continue_on(second_client).get_result({"approve": NO})) == "approval_declined"
        assert (first.ran, second.ran) == ([], [])


async def test_invalid_answers_are_counted_on_all_instances_together() -> None:
    async with connect_instances() as (_, first_client, second, second_client):
        call = first_client.start_call("remove", {"what": "all"})
        await call.get_questions()
        await call.get_questions({"approve": YES})
        call = call.continue_on(second_client)
        questions = await call.get_questions({"reason": accept()})
        assert "$.name" in questions["reason"]["params"]["message"]
        call = call.continue_on(first_client)
        await call.get_questions({"reason": accept(name=7)})
        call = call.continue_on(second_client)
        assert get_code(await call.get_result({"reason": accept()})) == "invalid_answer"
        assert second.ran == []


async def test_a_handler_that_has_begun_is_not_restarted_on_another_instance() -> None:
    async with connect_instances() as (first, first_client, second, second_client):
        call = first_client.start_call("asks")
        await call.get_questions()
        await call.get_questions({"approve": YES})
        await call.get_questions({"reason": accept(name="old")})
        lost = await call.continue_on(second_client).get_result({"sure": YES})
        assert get_code(lost) == "question_expired"
        assert "retry the call" in get_text(lost).lower()
        assert (first.ran, second.ran, second.policy.began) == (["asks"], [], 0)
        # The call still waits on its first instance.
        assert get_text(await call.get_result({"sure": YES})) == "accept"


@pytest.mark.parametrize("options", [{"keys": KEYS[1:]}, {"keys": ()}, {"name": "another"}], ids=str)
async def test_instances_with_another_key_or_name_do_not_resume_it(options: Any) -> None:
    first, other_instance = Instance(), Instance(**options)
    async with serve_client(first.bridge) as first_client, serve_client(other_instance.bridge) as second_client:
        call = first_client.start_call("remove", {"what": "all"})
        await call.get_questions()
        assert await call.continue_on(second_client).get_error({"approve": YES}) == INVALID_STATE
        assert other_instance.policy.began == 0


async def test_keys_can_be_changed_while_serving() -> None:
    before, after = Instance(keys=KEYS[:1]), Instance(keys=KEYS[::-1])
    async with serve_client(before.bridge) as old, serve_client(after.bridge) as new:
        call = old.start_call("remove", {"what": "all"})
        await call.get_questions()
        # The old key opens the state, and the new one seals it.
        call = call.continue_on(new)
        await call.get_questions({"approve": YES})
        assert await call.continue_on(old).get_error({"reason": accept(name="old")}) == INVALID_STATE
        assert get_text(await call.get_result({"reason": accept(name="old")})) == "all is gone"


async def test_with_a_shared_store_a_state_is_valid_once_on_all_instances() -> None:
    store = MemoryStore()
    async with connect_instances(store=store) as (first, first_client, second, second_client):
        call = first_client.start_call("remove", {"what": "all"})
        await call.get_questions()
        await call.get_questions({"approve": YES})
        usage = call.continue_on(second_client)
        assert get_text(await call.get_result({"reason": accept(name="old")})) == "all is gone"
        assert await usage.get_error({"reason": accept(name="old")}) == INVALID_STATE
        assert (first.ran, second.ran, second.policy.began) == (["all"], [], 0)


async def test_a_state_sent_to_two_instances_is_accepted_by_one() -> None:
    store = MemoryStore()
    async with connect_instances(store=store) as (first, first_client, second, second_client):
        call = first_client.start_call("remove", {"what": "all"})
        await call.get_questions()
        await call.get_questions({"approve": YES})
        copy = call.continue_on(second_client)
        messages = [(item, await item.send({"reason": accept(name="old")})) for item in (call, copy)]
        answers = [await item.receive(number) for item, number in messages]
        assert sorted("error" in answer for answer in answers) == [False, True]
        assert [*first.ran, *second.ran] == ["all"]


async def test_a_question_survives_a_restart_where_the_keys_do() -> None:
    instance = Instance()
    async with serve_client(instance.bridge) as client:
        call = client.start_call("remove", {"what": "all"})
        await call.get_questions()
        await call.get_questions({"approve": YES})
    reborn = Instance()
    async with serve_client(reborn.bridge) as client:
        call = call.continue_on(client)
        assert get_text(await call.get_result({"reason": accept(name="old")})) == "all is gone"
    assert (instance.ran, reborn.ran) == ([], ["all"])


async def test_an_evicted_call_is_resumed_as_on_another_instance() -> None:
    instance = Instance(suspended=1)
    async with serve_client(instance.bridge) as client:
        first = client.start_call("remove", {"what": "one"})
        await first.get_questions()
        await first.get_questions({"approve": YES})
        second = client.start_call("remove", {"what": "two"})
        await second.get_questions()
        assert get_text(await first.get_result({"reason": accept(name="old")})) == "one is gone"
        await second.get_questions({"approve": YES})
        assert get_text(await second.get_result({"reason": accept(name="new")})) == "two is gone"
        assert instance.ran == ["one", "two"]
        assert instance.policy.decided == ["old", "new"]
        assert is_idle(instance.bridge)


async def test_a_state_resumed_on_another_instance_belongs_to_its_request_alone() -> None:
    async with connect_instances() as (_, first_client, second, second_client):
        call = first_client.start_call("remove", {"what": "one"})
        await call.get_questions()
        stolen = second_client.start_call("remove", {"what": "two"}, state=call.state)
        assert await stolen.get_error({"approve": YES}) == INVALID_STATE
        assert second.policy.began == 0


async def test_instances_with_settings_files_of_different_names_continue_each_others_calls(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("from mcp_bridge import tool\n\n@tool\ndef look() -> str:\n    return 'seen'\n")
    keys = json.dumps({"keys": [KEYS[0]]})
    bridges = []
    for name in ("one", "two"):
        file = tmp_path / f"{name}.yaml"
        file.write_text(f"sources: [{{type: python, path: tools.py}}]\npolicy: [{{approval: {{}}}}]\nstate: {keys}\n")
        bridges.append(build_from_settings(load(file, {})))
    async with (
        bridges[0].run_sources(),
        bridges[1].run_sources(),
        serve_client(bridges[0]) as first_client,
        serve_client(bridges[1]) as second_client,
    ):
        await bridges[0].wait_until_started()
        await bridges[1].wait_until_started()
        call = first_client.start_call("look", {})
        (question,) = list_names(await call.get_questions())
        call = call.continue_on(second_client)
        assert get_text(await call.get_result({question: accept(value="Allow once")})) == "seen"


async def test_a_store_that_fails_lets_no_state_through() -> None:
    class Broken:
        """An unreachable store."""

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
    async with serve_client(instance.bridge) as client:
        call = client.start_call("remove", {"what": "all"})
        await call.get_questions()
        error = await call.get_error({"approve": YES})
        assert error["code"] in (-32602, -32603)
        assert "away" not in str(error)
    assert instance.ran == []
