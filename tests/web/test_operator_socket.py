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
from mcp_bridge._runtime.platform import unix_sockets
from mcp_bridge._runtime.platform.unix_sockets import is_same_user
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._storage.stores.memory import MemoryStore
from mcp_bridge._version import __version__
from mcp_bridge._web.client import OperatorClient, OperatorError
from mcp_bridge._web.operator_socket import OperatorSocket
from mcp_bridge.testing import connect
from tests.kits.approvals.approvals_kit import ALWAYS, SESSION_KEY, build_host, make_short_folder, read_records
from tests.kits.constants import EVERY_ERA, TIMEOUT
from tests.kits.hooks.hooks_kit import ScriptedUser, ask, get_code, get_texts, open_client

Message = TerminalQuestion | QuestionUpdate


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder with a path short enough for sockets."""
    with make_short_folder() as path:
        yield path / "s"


def list_sockets_in(folder: Path) -> list[Path]:
    """List the sockets in a folder."""
    return sorted(folder.glob("*.sock"))


def list_remaining(folder: Path) -> list[Path]:
    """List the folder, if it exists, and its files."""
    return [path for path in (folder, *folder.glob("*")) if path.exists()]


def make_folder(folder: Path, mode: int) -> None:
    """Make the folder, with this mode."""
    folder.mkdir()
    folder.chmod(mode)


def read_mode(path: Path) -> int:
    """Return the permissions of a file."""
    return path.stat().st_mode & 0o777


class TerminalUser:
    """A user at a terminal, with the received messages and the names of the connected bridges."""

    def __init__(self, folder: Path) -> None:
        self.messages: list[Message] = []
        self.connected_bridges: list[str] = []
        self.bridges = RunningBridges(folder, self._receive, self._connect)
        self._change = anyio.Event()

    def _receive(self, message: Message) -> None:
        self.messages.append(message)
        self._change.set()

    def _connect(self, name: str) -> None:
        self.connected_bridges.append(name)
        self._change.set()

    async def wait_for(self, find: Any) -> Any:
        """Wait until `find` returns a true value, and return it."""
        with anyio.fail_after(TIMEOUT):
            while not (match := find()):
                self._change = anyio.Event()
                await self._change.wait()
        return match

    async def wait_for_question(self, number: int = 1) -> TerminalQuestion:
        """Wait for the question with this number."""
        question: TerminalQuestion = await self.wait_for(lambda: self._find_message(TerminalQuestion, number))
        return question

    async def wait_for_update(self, number: int = 1) -> QuestionUpdate:
        """Wait for the end of the question with this number."""
        update: QuestionUpdate = await self.wait_for(lambda: self._find_message(QuestionUpdate, number))
        return update

    def _find_message(self, message_type: type[Message], number: int) -> Message | None:
        for message in self.messages:
            if isinstance(message, message_type) and message.number == number:
                return message
        return None


def build_socket(desk: QuestionDesk, folder: Path) -> OperatorSocket:
    """Build the socket of a bridge with a desk."""
    bridge = Bridge(identity=Identity(name="shop"), desk=desk)
    return OperatorSocket(folder, desk, lambda: find_operator_api(bridge, None))


@contextlib.asynccontextmanager
async def open_desk(desk: QuestionDesk, folder: Path) -> AsyncIterator[None]:
    """Serve the socket of a bridge with a desk during the block."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(build_socket(desk, folder).run)
        with anyio.fail_after(TIMEOUT):
            while not list_sockets_in(folder):  # noqa: ASYNC110 - there is no event
                await anyio.sleep(0.01)
        yield
        tasks.cancel_scope.cancel()


@contextlib.asynccontextmanager
async def connect_users(folder: Path, count: int = 1) -> AsyncIterator[Any]:
    """Connect users at terminals during the block."""
    users = [TerminalUser(folder) for _ in range(count)]
    async with anyio.create_task_group() as tasks:
        for user in users:
            tasks.start_soon(user.bridges.run)
            await user.wait_for(user.connected_bridges.copy)
        yield users[0] if count == 1 else users
        tasks.cancel_scope.cancel()


async def open_connection(folder: Path) -> Any:
    """Open a connection to the socket without a client."""
    (path,) = list_sockets_in(folder)
    return await anyio.connect_unix(path)


async def call_add(host: Any, mode: str, results: list[Any], **arguments: Any) -> None:
    """Call `add` as a client without elicitation, and append the result."""
    async with open_client(host, mode) as client:
        results.append(await client.call_tool("add", {"n": 1} | arguments, meta={SESSION_KEY: "mine"}))


@EVERY_ERA
@pytest.mark.parametrize("choice", ["once", "deny"])
async def test_a_user_at_a_terminal_decides_if_the_client_cannot_ask(
    mode: str, choice: Any, folder: Path, tmp_path: Path
) -> None:
    desk, results = QuestionDesk(), []
    host = build_host(desk=desk, audit=tmp_path / "audit")
    async with open_desk(desk, folder), connect_users(folder) as user, anyio.create_task_group() as tasks:
        tasks.start_soon(call_add, host, mode, results)
        question = await user.wait_for_question()
        assert (question.tool, question.message, question.arguments) == ("add", "Sure?", '{"n": 1}')
        assert (question.bridge, question.scopes) == (f"shop ({os.getpid()})", ("once", "deny"))
        assert await user.bridges.answer_question(1, choice)
        assert await user.wait_for_update() == QuestionUpdate(1, "here", choice)
    assert get_code(results[0]) == (None if choice == "once" else "approval_declined")
    assert [(line["decision"], line["how"]) for line in read_records(tmp_path / "audit")] == [(choice, "terminal")]


async def test_a_lasting_approval_at_a_terminal_is_remembered(mode: str, folder: Path) -> None:
    desk, results = QuestionDesk(), []
    host = build_host(MemoryStore(), desk=desk)
    async with open_desk(desk, folder), connect_users(folder) as user, anyio.create_task_group() as tasks:
        tasks.start_soon(call_add, host, mode, results)
        assert set((await user.wait_for_question()).scopes) == {"once", "session", "always", "deny"}
        await user.bridges.answer_question(1, "always")
        await user.wait_for_update()
        await call_add(host, mode, results)
        tasks.start_soon(partial(call_add, host, mode, results, n=2))
        await user.wait_for_question(2)
        await user.bridges.answer_question(2, "deny")
    assert sorted(result.is_error for result in results) == [False, False, True]


async def test_a_client_that_can_ask_comes_first(mode: str, folder: Path) -> None:
    desk, client_user = QuestionDesk(), ScriptedUser(ALWAYS)
    host = build_host(MemoryStore(), desk=desk)
    async with open_desk(desk, folder), connect_users(folder) as user, open_client(host, mode, client_user) as client:
        assert not (await client.call_tool("add", {"n": 1})).is_error
        assert (len(client_user.asked), user.messages) == (1, [])


async def test_the_first_answer_counts_and_other_terminals_are_notified(folder: Path) -> None:
    desk, results = QuestionDesk(), []
    async with open_desk(desk, folder), connect_users(folder, 2) as (first, second), anyio.create_task_group() as tasks:
        tasks.start_soon(call_add, build_host(desk=desk), "legacy", results)
        await first.wait_for_question()
        await second.wait_for_question()
        await second.bridges.answer_question(1, "deny")
        assert await second.wait_for_update() == QuestionUpdate(1, "here", "deny")
        assert await first.wait_for_update() == QuestionUpdate(1, "elsewhere")
        assert not await first.bridges.answer_question(1, "once")
    assert results[0].is_error


async def test_the_default_applies_if_all_users_leave(folder: Path, tmp_path: Path) -> None:
    desk, results = QuestionDesk(), []
    host = build_host(desk=desk, audit=tmp_path / "audit", hooks=False)
    host.on("tool:pre", ask(approval_default="allow"))
    async with open_desk(desk, folder), anyio.create_task_group() as tasks, connect_users(folder) as user:
        tasks.start_soon(call_add, host, "legacy", results)
        await user.wait_for_question()
    assert not results[0].is_error
    assert [line["how"] for line in read_records(tmp_path / "audit")] == ["default"]


async def test_a_question_waits_for_a_user_to_connect_if_the_settings_allow_it(folder: Path) -> None:
    desk, results = QuestionDesk(wait=TIMEOUT), []
    async with open_desk(desk, folder), anyio.create_task_group() as tasks:
        tasks.start_soon(call_add, build_host(desk=desk), "legacy", results)
        with anyio.fail_after(TIMEOUT):
            while not desk._waiting:  # noqa: ASYNC110 - there is no event
                await anyio.sleep(0.01)
        async with connect_users(folder) as user:
            await user.wait_for_question()
        async with connect_users(folder) as next_user:
            await next_user.wait_for_question()
            await next_user.bridges.answer_question(1, "once")
            await next_user.wait_for_update()
    assert not results[0].is_error


async def test_a_question_waits_no_longer_than_the_settings_allow(folder: Path) -> None:
    desk, results = QuestionDesk(wait=0.05), []
    async with open_desk(desk, folder):
        await call_add(build_host(desk=desk), "legacy", results)
    assert get_code(results[0]) == "approval_declined"


async def test_a_question_is_withdrawn_after_its_timeout(folder: Path, tmp_path: Path) -> None:
    desk, results = QuestionDesk(), []
    host = build_host(desk=desk, audit=tmp_path / "audit", hooks=False)
    host.on("tool:pre", ask(approval_timeout=1.0))
    async with open_desk(desk, folder), connect_users(folder) as user, anyio.create_task_group() as tasks:
        tasks.start_soon(call_add, host, "legacy", results)
        await user.wait_for_question()
        assert await user.wait_for_update() == QuestionUpdate(1, "withdrawn", "")
    assert [line["how"] for line in read_records(tmp_path / "audit")] == ["timeout"]


@EVERY_ERA
async def test_the_question_of_a_cancelled_call_is_withdrawn(mode: str, folder: Path) -> None:
    desk = QuestionDesk()
    host = build_host(desk=desk)
    async with open_desk(desk, folder), connect_users(folder) as user, open_client(host, mode) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "add", {"n": 1})
            await user.wait_for_question()
            tasks.cancel_scope.cancel()
        assert await user.wait_for_update() == QuestionUpdate(1, "withdrawn", "")
    assert host.calls == []


@EVERY_ERA
async def test_deadlines_pause_while_a_user_at_a_terminal_is_asked(mode: str, folder: Path) -> None:
    desk = QuestionDesk()
    host = build_host(desk=desk, hooks=False)
    host.registry.pipeline.timeout = 4.0
    host.on("tool:pre", lambda data: ask() if data["tool_name"] == "add" else None)

    @tool(registry=host.registry)
    async def outer(ctx: CallContext) -> str:
        """Call another tool."""
        return str((await ctx.invoke("add", {"n": 2})).output)

    async def read_slowly(user: TerminalUser) -> None:
        await user.wait_for_question()
        await anyio.sleep(4.2)
        await user.bridges.answer_question(1, "once")

    async with (
        open_desk(desk, folder),
        connect_users(folder) as user,
        open_client(host, mode) as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(read_slowly, user)
        assert get_texts(await client.call_tool("outer", {})) == ["{'sum': 3}"]


async def test_secrets_are_redacted_and_long_texts_are_truncated(folder: Path) -> None:
    desk, results = QuestionDesk(redactor=Redactor(["hunter22"])), []
    host = build_host(desk=desk, hooks=False, truncates=True)
    host.on("tool:pre", lambda data: ask(f"Say {data['tool_input']['text']}?"))

    async def call_say() -> None:
        async with open_client(host, "legacy") as client:
            results.append(await client.call_tool("say", {"text": "hunter22 " + "\U0001f600" * 2 * MAX_SHOWN}))

    async with open_desk(desk, folder), connect_users(folder) as user, anyio.create_task_group() as tasks:
        tasks.start_soon(call_say)
        question = await user.wait_for_question()
        assert question.message.startswith("Say [secret] ")
        assert question.message.endswith(" more characters")
        assert question.arguments.startswith('\n- text (length 20,009): "[secret] ')
        assert question.arguments.endswith("(not everything is shown)")
        assert all(len(text) < MAX_SHOWN + 50 for text in (question.message, question.arguments))
        await user.bridges.answer_question(1, "deny")
    assert results[0].is_error


@pytest.mark.parametrize("data", [b"no request\n", b"[" * 100_000 + b"\n", b"GET /page/state HTTP/1.1\r\n", b""])
async def test_a_connection_that_sends_no_request_is_closed_without_effect_on_others(data: bytes, folder: Path) -> None:
    desk, results = QuestionDesk(), []
    async with open_desk(desk, folder), connect_users(folder) as user:
        async with await open_connection(folder) as stream:
            with contextlib.suppress(anyio.BrokenResourceError):
                await stream.send(data) if data else None
                await stream.send_eof()
            with anyio.fail_after(TIMEOUT), contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                while True:
                    await stream.receive()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call_add, build_host(desk=desk), "legacy", results)
            await user.wait_for_question()
            await user.bridges.answer_question(1, "once")
    assert not results[0].is_error


async def test_an_answer_without_a_question_has_no_effect(folder: Path) -> None:
    desk, results = QuestionDesk(), []
    async with open_desk(desk, folder), connect_users(folder) as user, anyio.create_task_group() as tasks:
        tasks.start_soon(call_add, build_host(desk=desk), "legacy", results)
        await user.wait_for_question()
        (path,) = list_sockets_in(folder)
        with pytest.raises(OperatorError, match="no longer waiting") as error:
            await OperatorClient(socket=path).answer_approval(7, "once")
        assert (error.value.status, results) == (404, [])
        await user.bridges.answer_question(1, "deny")
    assert results[0].is_error


async def test_the_socket_serves_the_routes_of_the_page_to_its_user(folder: Path) -> None:
    async with open_desk(QuestionDesk(), folder):
        (path,) = list_sockets_in(folder)
        client = OperatorClient(socket=path)
        server, state = await client.read_server(), await client.read_state()
        assert (server["name"], server["pid"], server["bridge"]) == ("shop", os.getpid(), __version__)
        assert state["can"] == {
            "answer": True,
            "approve": True,
            "quarantine": True,
            "retry": True,
            "dialect": False,
            "install": False,
        }
        with pytest.raises(OperatorError, match="status 404: Not found"):
            await client._request("GET", "/mcp", "result")


async def test_calls_are_observed_from_the_first_connection_on(folder: Path) -> None:
    host = build_host(desk=QuestionDesk(), hooks=False)
    desk = host.asking.policy.desk
    bridge = Bridge(host.registry, desk=desk)
    socket = OperatorSocket(folder, desk, lambda: find_operator_api(bridge, None))
    async with (
        bridge.run_sources(),
        connect(bridge, mode="legacy") as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(socket.run)
        await client.call_tool("add", {"n": 1})
        (path,) = list_sockets_in(folder)
        assert (await OperatorClient(socket=path).read_state())["calls"] == []
        await client.call_tool("add", {"n": 2})
        state = await OperatorClient(socket=path).read_state()
        assert [(call["tool"], call["arguments"]) for call in state["calls"]] == [("add", {"n": 2})]
        assert [row["calls"] for row in state["clients"]] == [1]
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("choice", ["always", "yes", None, ["once"]])
async def test_an_answer_that_was_not_offered_is_rejected(choice: Any, folder: Path) -> None:
    desk, results = QuestionDesk(), []
    async with open_desk(desk, folder), connect_users(folder) as user, anyio.create_task_group() as tasks:
        tasks.start_soon(call_add, build_host(desk=desk), "legacy", results)
        await user.wait_for_question()
        await user.bridges.answer_question(1, choice)
        assert await user.wait_for_update() == QuestionUpdate(1, "invalid", "")
        await user.bridges.answer_question(1, "deny")
    assert results[0].is_error


async def test_connections_of_other_users_are_rejected(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(unix_sockets, "is_same_user", lambda _: False)
    async with open_desk(QuestionDesk(), folder):
        (path,) = list_sockets_in(folder)
        with pytest.raises(OperatorError, match="cannot be reached"):
            await OperatorClient(socket=path).read_server()
    assert "rejected a connection from another user" in caplog.text


def test_the_user_of_the_other_end_of_a_socket_is_identified() -> None:
    first, second = socket.socketpair(socket.AF_UNIX)
    with first, second:
        assert is_same_user(first)


async def test_a_folder_that_other_users_can_use_is_rejected(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    make_folder(folder, 0o777)
    await build_socket(QuestionDesk(), folder).run()
    assert f"approvals in a terminal are not available: other users can use the folder {folder}" in caplog.text
    with pytest.raises(BaseExceptionGroup) as error_group:
        await RunningBridges(folder, print).run()
    assert error_group.group_contains(PermissionError)


async def test_a_path_that_is_too_long_is_logged(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    long = folder / ("x" * 120)
    await build_socket(QuestionDesk(), long).run()
    assert "approvals in a terminal are not available" in caplog.text


async def test_a_socket_is_private_and_removed_with_its_bridge(folder: Path) -> None:
    desk = QuestionDesk()
    async with open_desk(desk, folder):
        assert [*map(read_mode, list_sockets_in(folder)), read_mode(folder)] == [0o600, 0o700]
    assert list_sockets_in(folder) == []


async def test_a_bridge_that_is_cancelled_while_it_starts_leaves_no_files(folder: Path) -> None:
    for steps in range(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(build_socket(QuestionDesk(), folder).run)
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    assert list_remaining(folder) == []


async def test_sockets_of_crashed_bridges_are_removed(folder: Path) -> None:
    make_folder(folder, 0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(folder / "1-dead.sock"))
    async with open_desk(QuestionDesk(), folder), anyio.create_task_group() as tasks:
        tasks.start_soon(build_socket(QuestionDesk(), folder).run)
        with anyio.fail_after(TIMEOUT):
            while len(list_sockets_in(folder)) != 2 or folder / "1-dead.sock" in list_sockets_in(folder):  # noqa: ASYNC110
                await anyio.sleep(0.01)
        async with connect_users(folder) as user:
            await user.wait_for(lambda: len(user.connected_bridges) == 2)
        tasks.cancel_scope.cancel()


async def test_questions_end_with_their_bridge(folder: Path) -> None:
    desk, results = QuestionDesk(), []
    async with connect_user_early(folder) as user:
        async with open_desk(desk, folder), anyio.create_task_group() as tasks:
            tasks.start_soon(call_add, build_host(desk=desk), "legacy", results)
            await user.wait_for(lambda: user.connected_bridges)
            tasks.start_soon(call_add, build_host(desk=desk), "legacy", results)
            await user.wait_for_question()
            tasks.cancel_scope.cancel()
        assert (await user.wait_for_update()).how in {"withdrawn", "lost"}


@contextlib.asynccontextmanager
async def connect_user_early(folder: Path) -> AsyncIterator[TerminalUser]:
    """Connect a user before there is a bridge."""
    user = TerminalUser(folder)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(user.bridges.run)
        yield user
        tasks.cancel_scope.cancel()
