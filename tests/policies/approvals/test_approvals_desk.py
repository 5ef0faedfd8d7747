"""The desk: whoever approves at a terminal is asked where nobody at the client can be, and harms nobody."""

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
from mcp_bridge._engine.authoring import tool
from mcp_bridge._policies.approvals import connection
from mcp_bridge._policies.approvals.client import ApprovalClient, QuestionUpdate, TerminalQuestion
from mcp_bridge._policies.approvals.server import MAX_CONNECTIONS, MAX_UNREAD, ApprovalServer
from mcp_bridge._policies.approvals.shown_call import MAX_SHOWN
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._storage.stores.memory import MemoryStore
from tests.kits.approvals.approvals_kit import ALWAYS, NAMED, house_with, lines, short_folder
from tests.kits.loops import BOTH_LOOPS

from tests.kits.hooks.hooks_kit import EVERY_ERA, Someone, ask, code_of, texts, visited  # isort: skip - approvals_kit says where

PATIENCE = 60.0
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
        self.visits = ApprovalClient(folder, self._hear, self._come)
        self._news = anyio.Event()

    def _hear(self, heard: Heard) -> None:
        self.heard.append(heard)
        self._news.set()

    def _come(self, name: str) -> None:
        self.came.append(name)
        self._news.set()

    async def until(self, fits: Any) -> Any:
        """Wait until this holds of what was heard."""
        with anyio.fail_after(PATIENCE):
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


@contextlib.asynccontextmanager
async def open_desk(desk: ApprovalServer, folder: Path) -> AsyncIterator[None]:
    """A desk that is served for as long as the block."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(desk.run)
        with anyio.fail_after(PATIENCE):
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
            tasks.start_soon(one.visits.run)
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
    async with visited(house, mode) as client:
        results.append(await client.call_tool("add", {"n": 1} | arguments, meta={NAMED: "mine"}))


@EVERY_ERA
@pytest.mark.parametrize("choice", ["once", "deny"])
async def test_somebody_at_a_terminal_decides_where_the_client_cannot(
    mode: str, choice: Any, folder: Path, tmp_path: Path
) -> None:
    desk, results = ApprovalServer(folder, name="shop"), []
    house = house_with(desk=desk, audit=tmp_path / "audit")
    async with open_desk(desk, folder), approving(folder) as person, anyio.create_task_group() as tasks:
        tasks.start_soon(calls, house, mode, results)
        asked = await person.question()
        assert (asked.tool, asked.prompt, asked.arguments) == ("add", "Sure?", '{"n": 1}')
        assert (asked.bridge, asked.scopes) == (f"shop ({os.getpid()})", ("once",))
        assert await person.visits.answer_question(1, choice)
        assert await person.news() == QuestionUpdate(1, "yours", choice)
    assert code_of(results[0]) == (None if choice == "once" else "approval_declined")
    assert [(line["decision"], line["how"]) for line in lines(tmp_path / "audit")] == [(choice, "terminal")]


async def test_what_is_allowed_always_at_a_terminal_is_remembered(mode: str, folder: Path) -> None:
    desk, results = ApprovalServer(folder), []
    house = house_with(MemoryStore(), desk=desk)
    async with open_desk(desk, folder), approving(folder) as person, anyio.create_task_group() as tasks:
        tasks.start_soon(calls, house, mode, results)
        assert set((await person.question()).scopes) == {"once", "session", "always"}
        await person.visits.answer_question(1, "always")
        await person.news()
        await calls(house, mode, results)
        tasks.start_soon(partial(calls, house, mode, results, n=2))
        await person.question(2)
        await person.visits.answer_question(2, "deny")
    assert sorted(result.is_error for result in results) == [False, False, True]


async def test_a_client_that_can_ask_comes_first(mode: str, folder: Path) -> None:
    desk, asked = ApprovalServer(folder), Someone(ALWAYS)
    house = house_with(MemoryStore(), desk=desk)
    async with open_desk(desk, folder), approving(folder) as person, visited(house, mode, asked) as client:
        assert not (await client.call_tool("add", {"n": 1})).is_error
        assert (len(asked.asked), person.heard) == (1, [])


@BOTH_LOOPS
async def test_the_first_answer_counts_and_the_others_are_told(folder: Path) -> None:
    desk, results = ApprovalServer(folder), []
    async with open_desk(desk, folder), approving(folder, 2) as (one, other), anyio.create_task_group() as tasks:
        tasks.start_soon(calls, house_with(desk=desk), "legacy", results)
        await one.question()
        await other.question()
        await other.visits.answer_question(1, "deny")
        assert await other.news() == QuestionUpdate(1, "yours", "deny")
        assert await one.news() == QuestionUpdate(1, "another", "deny")
        assert not await one.visits.answer_question(1, "once")
    assert results[0].is_error


@BOTH_LOOPS
async def test_where_everybody_leaves_the_default_holds(folder: Path, tmp_path: Path) -> None:
    desk, results = ApprovalServer(folder), []
    house = house_with(desk=desk, audit=tmp_path / "audit", hooks=False)
    house.on("tool:pre", ask(approval_default="allow"))
    async with open_desk(desk, folder), anyio.create_task_group() as tasks, approving(folder) as person:
        tasks.start_soon(calls, house, "legacy", results)
        await person.question()
    assert not results[0].is_error
    assert [line["how"] for line in lines(tmp_path / "audit")] == ["default"]


async def test_a_question_waits_for_somebody_to_come_where_the_settings_say_so(folder: Path) -> None:
    desk, results = ApprovalServer(folder, wait=PATIENCE), []
    async with open_desk(desk, folder), anyio.create_task_group() as tasks:
        tasks.start_soon(calls, house_with(desk=desk), "legacy", results)
        with anyio.fail_after(PATIENCE):
            while not desk._waiting:  # noqa: ASYNC110 - nobody says when
                await anyio.sleep(0.01)
        async with approving(folder) as person:
            await person.question()
        async with approving(folder) as next_person:
            await next_person.question()
            await next_person.visits.answer_question(1, "once")
            await next_person.news()
    assert not results[0].is_error


async def test_nobody_waits_for_longer_than_that(folder: Path) -> None:
    desk, results = ApprovalServer(folder, wait=0.05), []
    async with open_desk(desk, folder):
        await calls(house_with(desk=desk), "legacy", results)
    assert code_of(results[0]) == "approval_declined"


@BOTH_LOOPS
async def test_a_question_has_its_time_and_is_then_withdrawn(folder: Path, tmp_path: Path) -> None:
    desk, results = ApprovalServer(folder), []
    house = house_with(desk=desk, audit=tmp_path / "audit", hooks=False)
    house.on("tool:pre", ask(approval_timeout=1.0))
    async with open_desk(desk, folder), approving(folder) as person, anyio.create_task_group() as tasks:
        tasks.start_soon(calls, house, "legacy", results)
        await person.question()
        assert await person.news() == QuestionUpdate(1, "withdrawn", "")
    assert [line["how"] for line in lines(tmp_path / "audit")] == ["timeout"]


@EVERY_ERA
async def test_a_call_that_is_given_up_is_withdrawn(mode: str, folder: Path) -> None:
    desk = ApprovalServer(folder)
    house = house_with(desk=desk)
    async with open_desk(desk, folder), approving(folder) as person, visited(house, mode) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "add", {"n": 1})
            await person.question()
            tasks.cancel_scope.cancel()
        assert await person.news() == QuestionUpdate(1, "withdrawn", "")
    assert house.ran == []


@EVERY_ERA
async def test_deadlines_stop_while_somebody_at_a_terminal_is_asked(mode: str, folder: Path) -> None:
    desk = ApprovalServer(folder)
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
        await person.visits.answer_question(1, "once")

    async with (
        open_desk(desk, folder),
        approving(folder) as person,
        visited(house, mode) as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(read_slowly, person)
        assert texts(await client.call_tool("outer", {})) == ["{'sum': 3}"]


async def test_secrets_are_not_shown_and_long_texts_are_cut(folder: Path) -> None:
    desk, results = ApprovalServer(folder, redactor=Redactor(["hunter22"])), []
    house = house_with(desk=desk, hooks=False, truncates=True)
    house.on("tool:pre", lambda data: ask(f"Say {data['tool_input']['text']}?"))

    async def says() -> None:
        async with visited(house, "legacy") as client:
            results.append(await client.call_tool("say", {"text": "hunter22 " + "\U0001f600" * 2 * MAX_SHOWN}))

    async with open_desk(desk, folder), approving(folder) as person, anyio.create_task_group() as tasks:
        tasks.start_soon(says)
        asked = await person.question()
        assert asked.prompt.startswith("Say [secret] ")
        assert asked.prompt.endswith(" more characters")
        assert asked.arguments.startswith('\n- text (length 20,009): "[secret] ')
        assert asked.arguments.endswith("(not everything is shown)")
        assert all(len(text) < MAX_SHOWN + 50 for text in (asked.prompt, asked.arguments))
        await person.visits.answer_question(1, "deny")
    assert results[0].is_error


@pytest.mark.parametrize(
    "said",
    [
        b"no json\n",
        b"[1]\n",
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b"x" * (connection.MAX_MESSAGE + 10),
        b'{"answer": 1, "choice": "once"',
        b"",
    ],
)
async def test_who_says_what_is_no_message_is_let_go_and_nobody_else(said: bytes, folder: Path) -> None:
    desk, results = ApprovalServer(folder), []
    async with open_desk(desk, folder), approving(folder) as person:
        async with await talk(folder) as stream:
            with contextlib.suppress(anyio.BrokenResourceError):
                await stream.send(said) if said else None
                await stream.send_eof()
            with anyio.fail_after(PATIENCE), contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                while True:
                    await stream.receive()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(calls, house_with(desk=desk), "legacy", results)
            await person.question()
            await person.visits.answer_question(1, "once")
    assert not results[0].is_error


@pytest.mark.parametrize("answer", [{"answer": True}, {"answer": 7}, {"answer": [1]}, {}])
async def test_an_answer_to_nothing_settles_nothing(answer: dict[str, Any], folder: Path) -> None:
    desk, results = ApprovalServer(folder), []
    async with open_desk(desk, folder), approving(folder) as person, anyio.create_task_group() as tasks:
        tasks.start_soon(calls, house_with(desk=desk), "legacy", results)
        await person.question()
        async with await talk(folder) as stream:
            line = connection.JsonConnection(stream)
            await line.send({**answer, "choice": "once"})
            heard = [await line.receive() for _ in range(3)]
        assert [next(iter(message)) for message in heard] == ["bridge", "question", "late"]
        assert results == []
        await person.visits.answer_question(1, "deny")
    assert results[0].is_error


@pytest.mark.parametrize("choice", ["always", "yes", None, ["once"]])
async def test_only_what_is_offered_can_be_chosen(choice: Any, folder: Path) -> None:
    desk, results = ApprovalServer(folder), []
    async with open_desk(desk, folder), approving(folder) as person, anyio.create_task_group() as tasks:
        tasks.start_soon(calls, house_with(desk=desk), "legacy", results)
        await person.question()
        await person.visits.answer_question(1, choice)
        assert await person.news() == QuestionUpdate(1, "unfit", "")
        await person.visits.answer_question(1, "deny")
    assert results[0].is_error


@BOTH_LOOPS
async def test_who_reads_nothing_loses_the_place_and_holds_up_nobody(folder: Path) -> None:
    desk = ApprovalServer(folder)
    async with open_desk(desk, folder), await talk(folder) as deaf:
        with anyio.fail_after(PATIENCE):
            while not desk._approvers:  # noqa: ASYNC110 - nobody says when
                await anyio.sleep(0.01)
            for _ in range(20 * MAX_UNREAD):
                with anyio.move_on_after(0):
                    with desk.ask_approval("add", {"n": "x" * MAX_SHOWN}, "Sure?", ["once"]) as question:
                        await desk.wait_for_answer(question)
            while desk._approvers:  # noqa: ASYNC110 - nobody says when
                await anyio.sleep(0.01)
        assert deaf is not None


async def test_there_are_only_so_many(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    desk = ApprovalServer(folder)
    async with open_desk(desk, folder), contextlib.AsyncExitStack() as stack:
        for _ in range(MAX_CONNECTIONS):
            stream = await stack.enter_async_context(await talk(folder))
            assert "bridge" in await connection.JsonConnection(stream).receive()
        with anyio.fail_after(PATIENCE), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await connection.JsonConnection(await stack.enter_async_context(await talk(folder))).receive()
    assert "rejected a connection to the approvals socket: 16 are open" in caplog.text


async def test_another_user_is_not_heard(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    desk = ApprovalServer(folder)
    async with open_desk(desk, folder):
        monkeypatch.setattr(connection.JsonConnection, "is_same_user", False)
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            async with await talk(folder) as stream:
                await connection.JsonConnection(stream).receive()
    assert "rejected a connection from another user" in caplog.text


def test_who_is_at_the_other_end_is_known() -> None:
    class Stream:
        def __init__(self, end: socket.socket) -> None:
            self._end = end

        def extra(self, attribute: Any) -> socket.socket:
            return self._end

    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        assert connection.JsonConnection(Stream(one)).is_same_user  # type: ignore[arg-type]


async def test_a_folder_that_others_can_use_is_refused(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    made(folder, 0o777)
    await ApprovalServer(folder).run()
    assert f"approvals in a terminal are not available: other users can use the folder {folder}" in caplog.text
    with pytest.raises(BaseExceptionGroup) as refused:
        await ApprovalClient(folder, print).run()
    assert refused.group_contains(PermissionError)


async def test_a_path_that_is_too_long_is_said_and_costs_nothing_else(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    long = folder / ("x" * 120)
    await ApprovalServer(long).run()
    assert "approvals in a terminal are not available" in caplog.text


@BOTH_LOOPS
async def test_a_socket_is_for_its_owner_and_goes_with_its_bridge(folder: Path) -> None:
    desk = ApprovalServer(folder)
    async with open_desk(desk, folder):
        assert [*map(mode_of, there(folder)), mode_of(folder)] == [0o600, 0o700]
    assert there(folder) == []


@BOTH_LOOPS
async def test_a_bridge_that_ends_while_it_starts_leaves_nothing_behind(folder: Path) -> None:
    for steps in range(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ApprovalServer(folder).run)
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    assert left(folder) == []


async def test_sockets_of_bridges_that_crashed_are_cleared_away(folder: Path) -> None:
    made(folder, 0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(folder / "1-dead.sock"))
    one, other = ApprovalServer(folder), ApprovalServer(folder)
    async with open_desk(one, folder), anyio.create_task_group() as tasks:
        tasks.start_soon(other.run)
        with anyio.fail_after(PATIENCE):
            while len(there(folder)) != 2 or folder / "1-dead.sock" in there(folder):  # noqa: ASYNC110
                await anyio.sleep(0.01)
        async with approving(folder) as person:
            await person.until(lambda: len(person.came) == 2)
        tasks.cancel_scope.cancel()


@BOTH_LOOPS
async def test_questions_end_with_their_bridge(folder: Path) -> None:
    desk, results = ApprovalServer(folder), []
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
        tasks.start_soon(person.visits.run)
        yield person
        tasks.cancel_scope.cancel()
