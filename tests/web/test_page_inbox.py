"""Approvals and questions on the page, with the client or instead of a client without support."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from mcp_bridge import CallContext
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._contracts.state import State
from mcp_bridge._contracts.tasks import TASKS
from mcp_bridge._policies.approvals.desk import Approver, OpenQuestion, QuestionDesk
from mcp_bridge._protocol.wire.meta_keys import CLIENT_CAPABILITIES
from mcp_bridge._storage.stores.memory import MemoryStore
from mcp_bridge._web import inbox
from mcp_bridge.tasks import TaskOptions, ToolTasks
from tests.kits.approvals.approvals_kit import DENY, ONCE, build_host, read_records
from tests.kits.constants import EVERY_ERA, TIMEOUT
from tests.kits.hooks.hooks_kit import ScriptedUser, get_code
from tests.kits.http.http_hosting import HttpWay, build_registry, make_stateless_request
from tests.kits.web.web_kit import TOKEN, PageReader, ServedPage, serve_page


class Waiting(ScriptedUser):
    """A user at the client who never answers. `withdrawn` is set when the question is withdrawn."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.withdrawn = anyio.Event(), anyio.Event()

    async def __call__(self, context: Any, params: Any) -> Any:
        self.begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.withdrawn.set()


@contextlib.asynccontextmanager
async def open_page_with_approvals(**options: Any) -> AsyncIterator[tuple[Any, ServedPage, PageReader]]:
    """Serve a host with a hook that asks about every call, and open its page."""
    host = build_host(MemoryStore(), desk=QuestionDesk(), **options)
    bridge = Bridge(host.registry, desk=host.asking.policy.desk)
    async with serve_page(bridge) as server, server.read() as page, page.follow():
        yield host, server, page


@contextlib.asynccontextmanager
async def connect_client(server: ServedPage, mode: str, user: Any = None) -> AsyncIterator[Any]:
    """Connect the official client, with a user or without."""
    options = {"elicitation_callback": user} if user is not None else {}
    async with HttpWay("http", mode).connect(server.base, token=TOKEN, **options) as client:
        yield client


async def call_add(client: Any, results: list[Any], n: int = 1) -> None:
    results.append(await client.call_tool("add", {"n": n}))


@EVERY_ERA
@pytest.mark.parametrize(("choice", "code"), [("once", None), ("deny", "approval_declined")])
async def test_the_page_decides_if_the_client_cannot_ask(mode: str, choice: str, code: Any, tmp_path: Path) -> None:
    results: list[Any] = []
    async with (
        open_page_with_approvals(audit=tmp_path / "audit") as (_, server, page),
        connect_client(server, mode) as client,
    ):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call_add, client, results)
            question = await page.wait_for("question")
            assert (question["kind"], question["tool"], question["message"]) == ("approval", "add", "Sure?")
            assert (question["arguments"], question["choices"][-1]) == ({"n": 1}, "deny")
            assert (await page.read_state())["questions"] == [question]
            assert (await page.post(f"questions/{question['id']}", choice=choice)).status_code == 200
        event = await page.wait_for("answered")
        decision = await page.wait_for("decision")
        state = await page.read_state()
    assert get_code(results[0]) == code
    assert event == {"id": question["id"], "how": "page", "outcome": choice}
    assert (decision["tool"], decision["how"], decision["decision"]) == ("add", "page", "deny" if code else "allow")
    assert (state["questions"], state["decisions"]) == ([], [decision])
    assert [(line["decision"], line["how"]) for line in read_records(tmp_path / "audit")] == [(choice, "page")]


async def test_the_page_decides_before_a_user_at_a_handshake_client_whose_question_is_withdrawn() -> None:
    results: list[Any] = []
    user = Waiting()
    async with open_page_with_approvals() as (host, server, page), connect_client(server, "legacy", user) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call_add, client, results)
            await user.begun.wait()
            question = await page.wait_for("question")
            await page.post(f"questions/{question['id']}", choice="once")
        assert not results[0].is_error
        assert host.calls == [{"n": 1, "to": 1}]


async def test_the_page_decides_before_a_user_at_a_stateless_client() -> None:
    results: list[Any] = []
    answer = anyio.Event()

    async def answer_late() -> Any:
        beginning.set()
        await answer.wait()
        import mcp_types

        return mcp_types.ElicitResult(action="accept", content={"value": DENY})

    beginning = anyio.Event()
    user = ScriptedUser(answer_late)
    async with open_page_with_approvals() as (host, server, page), connect_client(server, "2026-07-28", user) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call_add, client, results)
            await beginning.wait()
            question = await page.wait_for("question")
            await page.post(f"questions/{question['id']}", choice="once")
            # The call does not wait for the client.
            await page.wait_for("call", lambda call: call["state"] == "ok")
            answer.set()
        assert not results[0].is_error
        assert host.calls == [{"n": 1, "to": 1}]


@EVERY_ERA
async def test_the_client_decides_before_the_page(mode: str) -> None:
    async with (
        open_page_with_approvals() as (_, server, page),
        connect_client(server, mode, ScriptedUser(ONCE)) as client,
    ):
        assert not (await client.call_tool("add", {"n": 1})).is_error
        question = await page.wait_for("question")
        assert await page.wait_for("answered") == {"id": question["id"], "how": "client", "outcome": None}
        response = await page.post(f"questions/{question['id']}", choice="once")
        assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")


async def test_a_lasting_approval_at_the_page_is_remembered() -> None:
    results: list[Any] = []
    async with open_page_with_approvals() as (_, server, page), connect_client(server, "legacy") as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call_add, client, results)
            question = await page.wait_for("question")
            await page.post(f"questions/{question['id']}", choice="always")
        await call_add(client, results)
        decisions = (await page.read_state())["decisions"]
    assert [result.is_error for result in results] == [False, False]
    assert [decision["how"] for decision in decisions] == ["remembered", "page"]


async def test_an_answer_that_was_not_offered_leaves_the_question_open() -> None:
    results: list[Any] = []
    async with (
        open_page_with_approvals() as (_, server, page),
        connect_client(server, "legacy") as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(call_add, client, results)
        question = await page.wait_for("question")
        for body in ({"choice": "forever"}, {"choice": None}, {}, {"choice": ["once"]}):
            assert (await page.post(f"questions/{question['id']}", **body)).status_code == 400
        assert (await page.post(f"questions/{question['id']}0", choice="once")).status_code == 404
        await page.post(f"questions/{question['id']}", choice="once")
    assert not results[0].is_error


async def test_the_default_applies_once_the_last_page_has_disconnected(monkeypatch: Any) -> None:
    monkeypatch.setattr(inbox, "GRACE", 0.0)
    results: list[Any] = []
    host = build_host(MemoryStore(), desk=QuestionDesk())
    bridge = Bridge(host.registry, desk=host.asking.policy.desk)
    async with (
        serve_page(bridge) as server,
        connect_client(server, "legacy") as client,
        anyio.create_task_group() as tasks,
    ):
        async with server.read() as page, page.follow():
            tasks.start_soon(call_add, client, results)
            await page.wait_for("question")
        with anyio.fail_after(TIMEOUT):
            while not results:  # noqa: ASYNC110 - the page is gone, and the client only waits
                await anyio.sleep(0.01)
    assert get_code(results[0]) == "approval_declined"
    assert host.calls == []


async def test_a_call_that_the_page_has_allowed_runs_with_the_next_request_where_instances_share_a_store() -> None:
    host = build_host(MemoryStore(), desk=QuestionDesk())
    bridge = Bridge(host.registry, desk=host.asking.policy.desk, state=State(store=MemoryStore()))
    params: Any = {"name": "add", "arguments": {"n": 1}}

    async with serve_page(bridge) as server, server.read() as page, page.follow():

        async def request(**more: Any) -> Any:
            request_parts = make_stateless_request("tools/call", {**params, **more})
            meta = request_parts["json"]["params"]["_meta"]
            request_parts["json"]["params"]["_meta"] = {**meta, CLIENT_CAPABILITIES: {"elicitation": {"form": {}}}}
            return (await page.http.post("/mcp", **request_parts)).json()["result"]

        questions = await request()
        question = await page.wait_for("question")
        await page.post(f"questions/{question['id']}", choice="once")
        await page.wait_for("answered")
        # Another instance could get the next request.
        assert host.calls == []
        (name,) = questions["inputRequests"]
        answers = {name: {"action": "accept", "content": {"value": DENY}}}
        result = await request(requestState=questions["requestState"], inputResponses=answers)
    assert result["structuredContent"] == {"sum": 2}
    assert host.calls == [{"n": 1, "to": 1}]


async def test_the_principal_that_has_decided_is_recorded(tmp_path: Path) -> None:
    results: list[Any] = []
    host = build_host(MemoryStore(), desk=QuestionDesk(), audit=tmp_path / "audit")
    bridge = Bridge(host.registry, desk=host.asking.policy.desk)
    async with (
        serve_page(bridge, principals={"ann": "token-of-ann"}, operators=["ann"]) as server,
        server.read("token-of-ann") as ann,
        ann.follow(),
        connect_client(server, "legacy") as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(call_add, client, results)
        question = await ann.wait_for("question")
        await ann.post(f"questions/{question['id']}", choice="once")
        decision = await ann.wait_for("decision")
    assert (decision["how"], decision["user"], decision["principal"]) == ("page", "ann", None)
    assert [(line["how"], line["user"]) for line in read_records(tmp_path / "audit")] == [("page", "ann")]


async def test_the_default_applies_if_users_at_pages_do_not_answer_in_time() -> None:
    results: list[Any] = []
    host = build_host(MemoryStore(), desk=QuestionDesk(ttl=0.05))
    bridge = Bridge(host.registry, desk=host.asking.policy.desk)
    async with (
        serve_page(bridge) as server,
        server.read() as page,
        page.follow(),
        connect_client(server, "legacy") as client,
    ):
        await call_add(client, results)
        assert (await page.wait_for("answered"))["how"] == "withdrawn"
    assert get_code(results[0]) == "approval_declined"
    assert "No answer within 0.05 seconds" in results[0].content[0].text


async def test_an_answer_counts_that_arrives_while_the_call_waits_for_a_user_to_connect() -> None:
    desk = QuestionDesk(wait=0.05)
    answers: list[Any] = []

    async def wait_for_answer(question: OpenQuestion) -> None:
        answers.append(await desk.wait_for_answer(question))

    with desk.ask_approval("add", {}, "Sure?", ["once"]) as question:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_for_answer, question)
            await anyio.wait_all_tasks_blocked()
            desk.answer_question(question, "once", cast(Approver, SimpleNamespace(channel="page", user="")))
    assert [answer.value for answer in answers] == ["once"]


def test_a_question_that_the_client_has_answered_is_no_longer_open() -> None:
    desk = QuestionDesk()
    with desk.ask_approval("add", {}, "Sure?", ["once"]) as question:
        assert desk.find_question(question.number) is question
        question.outcome = "client"
        assert (desk.questions, desk.find_question(question.number)) == ([], None)


class Profile:
    """Tools with questions."""

    def __init__(self) -> None:
        self.registry = build_registry()

        @self.registry.tool
        async def greet(ctx: CallContext) -> str:
            answer = await ctx.ask("What is your name?", {"type": "object", "properties": {"name": {"type": "string"}}})
            return f"{answer.action} {dict(answer.content)}"


async def greet(page: PageReader, results: list[Any]) -> None:
    result = await page.call_tool("greet")
    results.append(result["content"][0]["text"])


async def test_a_form_of_a_call_whose_client_cannot_ask_is_answered_at_the_page() -> None:
    results: list[str] = []
    async with (
        serve_page(Profile().registry) as server,
        server.read() as page,
        page.follow(),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(greet, page, results)
        question = await page.wait_for("question")
        assert (question["kind"], question["tool"], question["message"]) == ("form", "greet", "What is your name?")
        assert question["schema"]["properties"] == {"name": {"type": "string"}}
        path = f"questions/{question['id']}"
        invalid = await page.post(path, action="accept", content={"name": 1})
        assert invalid.status_code == 400
        assert "name" in invalid.json()["error"]["message"]
        assert (await page.post(path, action="accept", content={"name": "Ada"})).status_code == 200
    assert results == ["accept {'name': 'Ada'}"]


async def test_a_form_of_a_task_whose_client_cannot_ask_is_answered_at_the_page() -> None:
    state = State(tasks=TaskOptions(poll=0.01, tools={"*": ToolTasks(after=0)}))

    async with serve_page(Bridge(Profile().registry, state=state)) as server, server.read() as page, page.follow():

        async def request(method: str, **params: Any) -> Any:
            request_parts = make_stateless_request(method, params)
            meta = request_parts["json"]["params"]["_meta"]
            request_parts["json"]["params"]["_meta"] = {**meta, CLIENT_CAPABILITIES: {"extensions": {TASKS: {}}}}
            if "taskId" in params:
                request_parts["headers"]["Mcp-Name"] = params["taskId"]
            return (await page.http.post("/mcp", **request_parts)).json()["result"]

        task = (await request("tools/call", name="greet", arguments={}))["taskId"]
        question = await page.wait_for("question")
        await page.post(f"questions/{question['id']}", action="accept", content={"name": "Ada"})
        with anyio.fail_after(TIMEOUT):
            while (task_state := await request("tasks/get", taskId=task))["status"] != "completed":  # noqa: ASYNC110 - polled
                await anyio.sleep(0.01)
        (client,) = (await page.read_state())["clients"]
    assert task_state["result"]["content"][0]["text"] == "accept {'name': 'Ada'}"
    assert (client["name"], client["transport"]) == ("a test", "http")


async def test_a_form_is_not_asked_if_no_page_is_open() -> None:
    async with serve_page(Profile().registry) as server, server.read() as page:
        request = partial(page.call_tool, "greet")
        # A JSON-RPC error has no result.
        with pytest.raises(KeyError):
            await request()
        async with page.http.stream("GET", "/page/events?role=observer") as stream:
            assert stream.status_code == 200
            # An observer cannot answer.
            with pytest.raises(KeyError):
                await request()


async def test_a_principal_answers_only_its_own_questions() -> None:
    results: list[str] = []
    tokens = {"alice": "token-of-alice", "bob": "token-of-bob"}
    async with (
        serve_page(Profile().registry, principals=tokens) as server,
        server.read("token-of-alice") as alice,
        server.read("token-of-bob") as bob,
        alice.follow(),
        bob.follow(),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(greet, alice, results)
        question = await alice.wait_for("question")
        assert (await bob.read_state())["questions"] == []
        assert (await bob.post(f"questions/{question['id']}", action="decline")).status_code == 404
        await alice.post(f"questions/{question['id']}", action="decline")
    assert results == ["decline {}"]
    assert "question" not in [name for _, name, _ in bob.events]
