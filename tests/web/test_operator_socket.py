"""The private socket: users at terminals are asked if the client cannot ask, and other users get nothing."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge import CallContext
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._app.operator_api import find_operator_api
from mcp_bridge._cli.approval_terminal import QuestionUpdate, RunningBridges, TerminalQuestion
from mcp_bridge._contracts.identity import Identity
from mcp_bridge._engine.authoring import tool
from mcp_bridge._policies.approvals.desk import QuestionDesk
from mcp_bridge._policies.approvals.shown_call import MAX_SHOWN
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._runtime.unix_sockets import is_same_user
from mcp_bridge._storage.stores.memory import MemoryStore
from mcp_bridge._version import __version__
from mcp_bridge._web import operator_socket
from mcp_bridge._web.client import OperatorClient, OperatorError
from mcp_bridge._web.operator_socket import OperatorSocket
from mcp_bridge.testing import connect
from tests.kits.approvals.approvals_kit import ALWAYS, NAMED, house_with, lines, short_folder
from tests.kits.constants import EVERY_ERA, TIMEOUT
from tests.kits.hooks.hooks_kit import ScriptedUser, ask, code_of, open_client, texts

Heard = TerminalQuestion | QuestionUpdate


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that is short enough for sockets."""
    with short_folder() as made:
        yield made / "s"


def there(folder: Path) -> list[Path]:
    """The sockets in a folder."""
    return sorted(folder.glob("*.sock"))


def left(folder: Path) -> list[Path]:
    """The folder, where it is there, and all that is in it."""
    return [path for path in (folder, *folder.glob("*")) if path.exists()]


def made(folder: Path, mode: int) -> None:
    """Make the folder, with this mode."""
    folder.mkdir()
    folder.chmod(mode)


def mode_of(path: Path) -> int:
    """Who may do what."""
    return path.stat().st_mode & 0o777


class Approving:
    """One who approves: what was heard, in order, and answers."""

    def __init__(self, folder: Path) -> None:
        self.heard: list[Heard] = []
        self.came: list[str] = []
        self.bridges = RunningBridges(folder, self._hear, self._come)
        self._news = anyio.Event()

    def _hear(self, heard: Heard) -> None:
        self.heard.append(heard)
        self._news.set()

    def _come(self, name: str) -> None:
        self.came.append(name)
        self._news.set()

    async def until(self, fits: Any) -> Any:
        """Wait until this holds of what was heard."""
        with anyio.fail_after(TIMEOUT):
            while not (found := fits()):
                self._news = anyio.Event()
                await self._news.wait()
        return found

    async def question(self, number: int = 1) -> TerminalQuestion:
        """A question, waited for."""
        asked: TerminalQuestion = await self.until(
            lambda: next(
                (one for one in self.heard if isinstance(one, TerminalQuestion) and one.number == number), None
            )
        )
        return asked

    async def news(self, number: int = 1) -> QuestionUpdate:
        """What became of a question, waited for."""
        news: QuestionUpdate = await self.until(
            lambda: next((one for one in self.heard if isinstance(one, QuestionUpdate) and one.number == number), None)
        )
        return news


def socket_of(desk: QuestionDesk, folder: Path) -> OperatorSocket:
    """The socket of a bridge with a desk."""
    bridge = Bridge(identity=Identity(name="shop"), desk=desk)
    return OperatorSocket(folder, desk, lambda: find_operator_api(bridge, None))


@contextlib.asynccontextmanager
async def open_desk(desk: QuestionDesk, folder: Path) -> AsyncIterator[None]:
    """A desk whose bridge has a socket for as long as the block."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(socket_of(desk, folder).run)
        with anyio.fail_after(TIMEOUT):
            while not there(folder):  # noqa: ASYNC110 - nobody says when
                await anyio.sleep(0.01)
        yield
        tasks.cancel_scope.cancel()


@contextlib.asynccontextmanager
async def approving(folder: Path, count: int = 1) -> AsyncIterator[Any]:
    """Those who approve, connected for as long as the block."""
    people = [Approving(folder) for _ in range(count)]
    async with anyio.create_task_group() as tasks:
        for one in people:
            tasks.start_soon(one.bridges.run)
        for one in people:
            await one.until(lambda one=one: one.came)
        yield people[0] if count == 1 else people
        tasks.cancel_scope.cancel()


async def talk(folder: Path) -> Any:
    """A bare connection to the desk."""
    (path,) = there(folder)
    return await anyio.connect_unix(path)


async def calls(house: Any, mode: str, results: list[Any], **arguments: Any) -> None:
    """Call `add` as a client that cannot be asked; the result is kept."""
    async with open_client(house, mode) as client:
        results.append(await client.call_tool("add", {"n": 1} | arguments, meta={NAMED: "mine"}))


@EVERY_ERA
@pytest.mark.parametrize("choice", ["once", "deny"])
async def test_a_user_at_a_terminal_decides_if_the_client_cannot_ask(
    mode: str, choice: Any, folder: Path, tmp_path: Path
) -> None:
    desk, results = QuestionDesk(), []
    house = house_with(desk=desk, audit=tmp_path / "audit")
    async with open_desk(desk, folder), approving(folder) as person, anyio.create_task_group() as tasks:
        tasks.start_soon(calls, house, mode, results)
        asked = await person.question()
        assert (asked.tool, asked.message, asked.arguments) == ("add", "Sure?", '{"n": 1}')
        assert (asked.bridge, asked.scopes) == (f"shop ({os.getpid()})", ("once", "deny"))
        assert await person.bridges.answer_question(1, choice)
        assert await person.news() == QuestionUpdate(1, "yours", choice)
    assert code_of(results[0]) == (None if choice == "once" else "approval_declined")
    assert [(line["decision"], line["how"]) for line in lines(tmp_path / "audit")] == [(choice, "terminal")]


async def test_a_lasting_approval_at_a_terminal_is_remembered(mode: str, folder: Path) -> None:
    desk, results = QuestionDesk(), []
    house = house_with(MemoryStore(), desk=desk)
    async with open_desk(desk, folder), approving(folder) as person, anyio.create_task_group() as tasks:
        tasks.start_soon(calls, house, mode, results)
        assert set((await person.question()).scopes) == {"once", "session", "always", "deny"}
        await person.bridges.answer_question(1, "always")
        await person.news()
        await calls(house, mode, results)
        tasks.start_soon(partial(calls, house, mode, results, n=2))
        await person.question(2)
        await person.bridges.answer_question(2, "deny")
    assert sorted(result.is_error for result in results) == [False, False, True]


async def test_a_client_that_can_ask_comes_first(mode: str, folder: Path) -> None:
    desk, asked = QuestionDesk(), ScriptedUser(ALWAYS)
    house = house_with(MemoryStore(), desk=desk)
    async with open_desk(desk, folder), approving(folder) as person, open_client(house, mode, asked) as client:
        assert not (await client.call_tool("add", {"n": 1})).is_error
        assert (len(asked.asked), person.heard) == (1, [])


async def test_the_first_answer_counts_and_other_terminals_are_notified(folder: Path) -> None:
    desk, results = QuestionDesk(), []
    async with open_desk(desk, folder), approving(folder, 2) as (one, other), anyio.create_task_group() as tasks:
        tasks.start_soon(calls, house_with(desk=desk), "legacy", results)
        await one.question()
        await other.question()
        await other.bridges.answer_question(1, "deny")
        assert await other.news() == QuestionUpdate(1, "yours", "deny")
        assert await one.news() == QuestionUpdate(1, "another")
        assert not await one.bridges.answer_question(1, "once")
    assert results[0].is_error


async def test_the_default_applies_if_all_users_leave(folder: Path, tmp_path: Path) -> None:
    desk, results = QuestionDesk(), []
    house = house_with(desk=desk, audit=tmp_path / "audit", hooks=False)
    house.on("tool:pre", ask(approval_default="allow"))
    async with open_desk(desk, folder), anyio.create_task_group() as tasks, approving(folder) as person:
        tasks.start_soon(calls, house, "legacy", results)
        await person.question()
    assert not results[0].is_error
    assert [line["how"] for line in lines(tmp_path / "audit")] == ["default"]


async def test_a_question_waits_for_a_user_to_connect_if_the_settings_allow_it(folder: Path) -> None:
    desk, results = QuestionDesk(wait=TIMEOUT), []
    async with open_desk(desk, folder), anyio.create_task_group() as tasks:
        tasks.start_soon(calls, house_with(desk=desk), "legacy", results)
        with anyio.fail_after(TIMEOUT):
            while not desk._waiting:  # noqa: ASYNC110 - nobody says when
                await anyio.sleep(0.01)
        async with approving(folder) as person:
            await person.question()
        async with approving(folder) as next_person:
            await next_person.question()
            await next_person.bridges.answer_question(1, "once")
            await next_person.news()
    assert not results[0].is_error


async def test_a_question_waits_no_longer_than_the_settings_allow(folder: Path) -> None:
    desk, results = QuestionDesk(wait=0.05), []
    async with open_desk(desk, folder):
        await calls(house_with(desk=desk), "legacy", results)
    assert code_of(results[0]) == "approval_declined"


async def test_a_question_is_withdrawn_after_its_timeout(folder: Path, tmp_path: Path) -> None:
    desk, results = QuestionDesk(), []
    house = house_with(desk=desk, audit=tmp_path / "audit", hooks=False)
    house.on("tool:pre", ask(approval_timeout=1.0))
    async with open_desk(desk, folder), approving(folder) as person, anyio.create_task_group() as tasks:
        tasks.start_soon(calls, house, "legacy", results)
        await person.question()
        assert await person.news() == QuestionUpdate(1, "withdrawn", "")
    assert [line["how"] for line in lines(tmp_path / "audit")] == ["timeout"]


@EVERY_ERA
async def test_the_question_of_a_cancelled_call_is_withdrawn(mode: str, folder: Path) -> None:
    desk = QuestionDesk()
    house = house_with(desk=desk)
    async with open_desk(desk, folder), approving(folder) as person, open_client(house, mode) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "add", {"n": 1})
            await person.question()
            tasks.cancel_scope.cancel()
        assert await person.news() == QuestionUpdate(1, "withdrawn", "")
    assert house.calls == []


@EVERY_ERA
async def test_deadlines_pause_while_a_user_at_a_terminal_is_asked(mode: str, folder: Path) -> None:
    desk = QuestionDesk()
    house = house_with(desk=desk, hooks=False)
    house.registry.pipeline.timeout = 4.0
    house.on("tool:pre", lambda data: ask() if data["tool_name"] == "add" else None)

    @tool(registry=house.registry)
    async def outer(ctx: CallContext) -> str:
        """Calls another."""
        return str((await ctx.invoke("add", {"n": 2})).output)

    async def read_slowly(person: Approving) -> None:
        await person.question()
        await anyio.sleep(4.2)
        await person.bridges.answer_question(1, "once")

    async with (
        open_desk(desk, folder),
        approving(folder) as person,
        open_client(house, mode) as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(read_slowly, person)
        assert texts(await client.call_tool("outer", {})) == ["{'sum': 3}"]


async def test_secrets_are_redacted_and_long_texts_are_truncated(folder: Path) -> None:
    desk, results = QuestionDesk(redactor=Redactor(["hunter22"])), []
    house = house_with(desk=desk, hooks=False, truncates=True)
    house.on("tool:pre", lambda data: ask(f"Say {data['tool_input']['text']}?"))

    async def says() -> None:
        async with open_client(house, "legacy") as client:
            results.append(await client.call_tool("say", {"text": "hunter22 " + "\U0001f600" * 2 * MAX_SHOWN}))

    async with open_desk(desk, folder), approving(folder) as person, anyio.create_task_group() as tasks:
        tasks.start_soon(says)
        asked = await person.question()
        assert asked.message.startswith("Say [secret] ")
        assert asked.message.endswith(" more characters")
        assert asked.arguments.startswith('\n- text (length 20,009): "[secret] ')
        assert asked.arguments.endswith("(not everything is shown)")
        assert all(len(text) < MAX_SHOWN + 50 for text in (asked.message, asked.arguments))
        await person.bridges.answer_question(1, "deny")
    assert results[0].is_error


@pytest.mark.parametrize("data", [b"no request\n", b"[" * 100_000 + b"\n", b"GET /page/state HTTP/1.1\r\n", b""])
async def test_a_connection_that_sends_no_request_is_closed_without_effect_on_others(data: bytes, folder: Path) -> None:
    desk, results = QuestionDesk(), []
    async with open_desk(desk, folder), approving(folder) as person:
        async with await talk(folder) as stream:
            with contextlib.suppress(anyio.BrokenResourceError):
                await stream.send(data) if data else None
                await stream.send_eof()
            with anyio.fail_after(TIMEOUT), contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                while True:
                    await stream.receive()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(calls, house_with(desk=desk), "legacy", results)
            await person.question()
            await person.bridges.answer_question(1, "once")
    assert not results[0].is_error


async def test_an_answer_to_no_question_settles_nothing(folder: Path) -> None:
    desk, results = QuestionDesk(), []
    async with open_desk(desk, folder), approving(folder) as person, anyio.create_task_group() as tasks:
        tasks.start_soon(calls, house_with(desk=desk), "legacy", results)
        await person.question()
        (path,) = there(folder)
        with pytest.raises(OperatorError, match="no longer waiting") as raised:
            await OperatorClient(socket=path).answer_approval(7, "once")
        assert (raised.value.status, results) == (404, [])
        await person.bridges.answer_question(1, "deny")
    assert results[0].is_error


async def test_the_socket_serves_the_routes_of_the_page_to_its_user(folder: Path) -> None:
    async with open_desk(QuestionDesk(), folder):
        (path,) = there(folder)
        client = OperatorClient(socket=path)
        server, state = await client.read_server(), await client.read_state()
        assert (server["name"], server["pid"], server["bridge"]) == ("shop", os.getpid(), __version__)
        assert state["can"] == {"answer": True, "approve": True, "quarantine": True, "install": False}
        with pytest.raises(OperatorError, match="status 404: Not found"):
            await client._request("GET", "/mcp", "result")


async def test_calls_are_observed_from_the_first_connection_on(folder: Path) -> None:
    house = house_with(desk=QuestionDesk(), hooks=False)
    desk = house.asking.policy.desk
    bridge = Bridge(house.registry, desk=desk)
    socket = OperatorSocket(folder, desk, lambda: find_operator_api(bridge, None))
    async with (
        bridge.run_sources(),
        connect(bridge, mode="legacy") as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(socket.run)
        await client.call_tool("add", {"n": 1})
        (path,) = there(folder)
        assert (await OperatorClient(socket=path).read_state())["calls"] == []
        await client.call_tool("add", {"n": 2})
        state = await OperatorClient(socket=path).read_state()
        assert [(call["tool"], call["arguments"]) for call in state["calls"]] == [("add", {"n": 2})]
        assert [one["calls"] for one in state["clients"]] == [1]
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("choice", ["always", "yes", None, ["once"]])
async def test_an_answer_that_was_not_offered_is_rejected(choice: Any, folder: Path) -> None:
    desk, results = QuestionDesk(), []
    async with open_desk(desk, folder), approving(folder) as person, anyio.create_task_group() as tasks:
        tasks.start_soon(calls, house_with(desk=desk), "legacy", results)
        await person.question()
        await person.bridges.answer_question(1, choice)
        assert await person.news() == QuestionUpdate(1, "unfit", "")
        await person.bridges.answer_question(1, "deny")
    assert results[0].is_error


async def test_connections_of_other_users_are_rejected(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(operator_socket, "is_same_user", lambda _: False)
    async with open_desk(QuestionDesk(), folder):
        (path,) = there(folder)
        with pytest.raises(OperatorError, match="cannot be reached"):
            await OperatorClient(socket=path).read_server()
    assert "rejected a connection from another user" in caplog.text


def test_the_user_of_the_other_end_of_a_socket_is_identified() -> None:
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        assert is_same_user(one)


async def test_a_folder_that_other_users_can_use_is_rejected(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    made(folder, 0o777)
    await socket_of(QuestionDesk(), folder).run()
    assert f"approvals in a terminal are not available: other users can use the folder {folder}" in caplog.text
    with pytest.raises(BaseExceptionGroup) as refused:
        await RunningBridges(folder, print).run()
    assert refused.group_contains(PermissionError)


async def test_a_path_that_is_too_long_is_logged(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    long = folder / ("x" * 120)
    await socket_of(QuestionDesk(), long).run()
    assert "approvals in a terminal are not available" in caplog.text


async def test_a_socket_is_private_and_removed_with_its_bridge(folder: Path) -> None:
    desk = QuestionDesk()
    async with open_desk(desk, folder):
        assert [*map(mode_of, there(folder)), mode_of(folder)] == [0o600, 0o700]
    assert there(folder) == []


async def test_a_bridge_that_is_cancelled_while_it_starts_leaves_no_files(folder: Path) -> None:
    for steps in range(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(socket_of(QuestionDesk(), folder).run)
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    assert left(folder) == []


async def test_sockets_of_crashed_bridges_are_removed(folder: Path) -> None:
    made(folder, 0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(folder / "1-dead.sock"))
    async with open_desk(QuestionDesk(), folder), anyio.create_task_group() as tasks:
        tasks.start_soon(socket_of(QuestionDesk(), folder).run)
        with anyio.fail_after(TIMEOUT):
            while len(there(folder)) != 2 or folder / "1-dead.sock" in there(folder):  # noqa: ASYNC110
                await anyio.sleep(0.01)
        async with approving(folder) as person:
            await person.until(lambda: len(person.came) == 2)
        tasks.cancel_scope.cancel()


async def test_questions_end_with_their_bridge(folder: Path) -> None:
    desk, results = QuestionDesk(), []
    async with approving_later(folder) as person:
        async with open_desk(desk, folder), anyio.create_task_group() as tasks:
            tasks.start_soon(calls, house_with(desk=desk), "legacy", results)
            await person.until(lambda: person.came)
            tasks.start_soon(calls, house_with(desk=desk), "legacy", results)
            await person.question()
            tasks.cancel_scope.cancel()
        assert (await person.news()).how in {"withdrawn", "lost"}


@contextlib.asynccontextmanager
async def approving_later(folder: Path) -> AsyncIterator[Approving]:
    """Somebody who approves, before there is a bridge."""
    person = Approving(folder)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(person.bridges.run)
        yield person
        tasks.cancel_scope.cancel()
