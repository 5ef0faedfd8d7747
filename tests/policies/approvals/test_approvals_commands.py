"""`mcp-bridge approvals` in one process, a bridge in another: answer, list, revoke; decisions outlive both."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._cli import logs
from mcp_bridge._cli.app import app
from mcp_bridge._cli.approval_terminal import ApprovalTerminal, QuestionUpdate, TerminalQuestion
from mcp_bridge._cli.exits import report_errors
from mcp_bridge._policies.approvals import policy
from mcp_bridge._policies.approvals.decisions import MIN_READING_TIME
from mcp_bridge._runtime.platform import posix
from tests.client.server_process import ClientProfile, Way
from tests.kits.approvals.approvals_kit import ALWAYS, SESSION, SESSION_KEY, read_records
from tests.kits.clock import ManualClock
from tests.kits.constants import TIMEOUT
from tests.kits.questions.asking_kit import get_code
from tests.kits.redis_server import redis_process, redis_server  # noqa: F401
from tests.kits.survival.survival_kit import run_server

COMMAND = [sys.executable, "-m", "mcp_bridge"]
STDIO, STDIO_STATELESS, HTTP_STATELESS = Way("stdio", False), Way("stdio", True), Way("http", True)
ELICITATION_CLIENT = ClientProfile(capabilities={"elicitation": {"form": {}}})
KEYS = {"keys": ["a key of thirty-two bytes or more, for tests"]}
GATE = """
from mcp_bridge.amplifier import HookResult

async def before(event, data):
    if data["tool_name"] != "repeat":
        return HookResult(action="continue")
    return HookResult(action="ask_user", approval_prompt="Repeat " + str(data["tool_input"].get("text")) + "?")

class Repeat:
    name, description = "repeat", "Repeats."
    input_schema = {"type": "object", "properties": {"text": {"type": "string"}}}

    async def execute(self, input):
        return {"success": True, "output": input["text"]}

async def mount(coordinator, config):
    await coordinator.mount("tools", Repeat())
    return coordinator.hooks.register("tool:pre", before)
"""
FILE = "mcp-bridge.json"
RunHere = Callable[..., tuple[int, str]]


def build_settings(folder: Path, *, store: str = "sqlite:kept.sqlite3", **approvals: Any) -> dict[str, Any]:
    """Return settings with a hook that asks about calls of `repeat`."""
    (folder / "gate.py").write_text(GATE)
    return {
        "sources": [{"type": "amplifier", "plan": {"tools": [{"module": "gate", "source": "gate.py"}]}}],
        "state": {**KEYS, "store": store},
        "approvals": {"audit": "audit.jsonl", **approvals},
    }


class TerminalUser:
    """A user of the command at a terminal. `err` is the text on the screen."""

    def __init__(self, folder: Path) -> None:
        self.err = ""
        self.process = subprocess.Popen(
            [*COMMAND, "approvals", FILE], cwd=folder, stdin=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._more:
                self.err += line.decode()
                self._more.notify_all()

    def wait_for_text(self, text: str) -> None:
        """Wait until this text is on the screen."""
        with self._more:
            assert self._more.wait_for(lambda: text in self.err, TIMEOUT), self.err

    def type_line(self, line: str) -> None:
        """Type a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def leave(self, how: signal.Signals | None = None) -> int:
        """End the command by a signal or by the end of its input, and return the exit code."""
        assert self.process.stdin is not None
        if how is not None:
            self.process.send_signal(how)
        else:
            self.process.stdin.close()
        return self.process.wait(TIMEOUT)

    def close(self) -> None:
        """End the process and its thread."""
        self.process.kill()
        self.process.wait()
        self._reader.join(TIMEOUT)
        for pipe in (self.process.stdin, self.process.stderr):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]


@contextlib.contextmanager
def connect_user(folder: Path) -> Iterator[TerminalUser]:
    """Start the command at a terminal, connected to the running bridge."""
    user = TerminalUser(folder)
    try:
        user.wait_for_text(f"connected to {folder.name} ")
        yield user
    finally:
        user.close()


def run(*args: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder."""
    return subprocess.run(
        [*COMMAND, "approvals", *args],
        cwd=folder, capture_output=True, text=True, timeout=TIMEOUT, env={**os.environ, **env},
    )  # fmt: skip


@pytest.fixture
def run_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunHere:
    """Run a command in this process and in `tmp_path`; it returns the exit code and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(logs, "configure_logging", lambda level, file=None: None)

    def run_here(*args: str) -> tuple[int, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as error, report_errors():
            app(list(args))
        return int(error.value.code or 0), capsys.readouterr().err

    return run_here


@pytest.mark.parametrize("way", [STDIO, HTTP_STATELESS], ids=str)
def test_a_user_at_a_terminal_decides_for_clients_that_cannot_ask(way: Way, tmp_path: Path) -> None:
    with run_server(way, tmp_path, settings=build_settings(tmp_path)) as server:
        assert get_code(server.get_result("repeat", text="before")) == "approval_declined"
        with connect_user(tmp_path) as user:
            for number, (key, text) in enumerate([("y", "a"), ("n", "b"), ("always", "c")], start=1):
                waiting = server.send_call("repeat", text=text)
                user.wait_for_text(f"  | Repeat {text}?")
                user.type_line(f"{key} {number}")
                assert get_code(waiting.result(TIMEOUT)["result"]) == ("approval_declined" if key == "n" else None)
            assert server.get_text("repeat", text="c") == "c"
            assert user.leave() == 0
        assert get_code(server.get_result("repeat", text="a")) == "approval_declined"
    decisions = [(line["decision"], line["how"]) for line in read_records(tmp_path / "audit.jsonl")]
    assert decisions == [
        ("deny", "default"),
        ("once", "terminal"),
        ("deny", "terminal"),
        ("always", "terminal"),
        ("always", "remembered"),
        ("deny", "default"),
    ]


def test_top_shows_the_calls_of_a_bridge_over_stdio_at_its_private_socket(tmp_path: Path) -> None:
    with run_server(STDIO, tmp_path, settings=build_settings(tmp_path)) as server:
        top = subprocess.Popen([*COMMAND, "top", FILE], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        try:
            assert top.stdout is not None
            end = time.monotonic() + TIMEOUT
            # Repeat the call until `top` is connected and shows it.
            while not select.select([top.stdout], [], [], 0.1)[0]:
                assert time.monotonic() < end
                assert get_code(server.get_result("repeat", text="a")) == "approval_declined"
            assert "approval_declined" in top.stdout.readline()
        finally:
            top.kill()
            top.communicate()


def test_of_two_users_the_first_answer_counts_and_ctrl_c_ends_both_commands(tmp_path: Path) -> None:
    with run_server(STDIO, tmp_path, settings=build_settings(tmp_path)) as server:
        with connect_user(tmp_path) as first, connect_user(tmp_path) as second:
            waiting = server.send_call("repeat", text="a")
            first.wait_for_text("  | Repeat a?")
            second.wait_for_text("  | Repeat a?")
            first.type_line("y 1")
            assert get_code(waiting.result(TIMEOUT)["result"]) is None
            second.wait_for_text("[1] answered elsewhere")
            assert first.leave(signal.SIGINT) == second.leave(signal.SIGINT) == 0
            assert "Traceback" not in first.err + second.err
        assert server.is_running


def test_the_default_applies_if_the_user_leaves(tmp_path: Path) -> None:
    with run_server(STDIO, tmp_path, settings=build_settings(tmp_path)) as server, connect_user(tmp_path) as user:
        waiting = server.send_call("repeat", text="a")
        user.wait_for_text("  | Repeat a?")
        user.process.kill()
        assert get_code(waiting.result(TIMEOUT)["result"]) == "approval_declined"


def test_a_user_who_leaves_gets_no_message_about_the_bridge(tmp_path: Path) -> None:
    with run_server(STDIO, tmp_path, settings=build_settings(tmp_path)) as server:
        with connect_user(tmp_path) as user:
            waiting = server.send_call("repeat", text="a")
            user.wait_for_text("y = once")
            assert user.leave(signal.SIGINT) == 0
        assert get_code(waiting.result(TIMEOUT)["result"]) == "approval_declined"
    assert "has ended" not in user.err


def test_the_command_ends_when_its_terminal_closes(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps(build_settings(tmp_path)))
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [*COMMAND, "approvals", FILE], cwd=tmp_path, stdin=theirs, stderr=subprocess.PIPE, start_new_session=True
    ) as user:
        os.close(theirs)
        assert user.stderr is not None
        assert user.stderr.readline().startswith(b"Waiting for approval requests")
        os.close(ours)
        assert user.wait(TIMEOUT) == 0


def test_the_command_connects_to_new_bridges_and_reports_stopped_ones(tmp_path: Path) -> None:
    settings = build_settings(tmp_path)
    (tmp_path / FILE).write_text(json.dumps(settings))
    user = TerminalUser(tmp_path)
    try:
        user.wait_for_text("Waiting for approval requests")
        for number in (1, 2):
            with run_server(STDIO, tmp_path, settings=settings) as server:
                if number == 1:
                    user.wait_for_text("connected to")
                else:
                    user.wait_for_text("[1] its bridge has stopped\nconnected to")
                server.send_call("repeat", text=f"text{number}")
                user.wait_for_text(f"  | Repeat text{number}?")
            user.wait_for_text(f"[{number}] its bridge has stopped")
    finally:
        user.close()


def test_a_lasting_approval_outlives_the_bridge_until_it_is_revoked(tmp_path: Path) -> None:
    settings = build_settings(tmp_path)
    with run_server(STDIO, tmp_path, settings=settings) as server, connect_user(tmp_path) as user:
        waiting = server.send_call("repeat", text="a secret word")
        user.wait_for_text("  | Repeat a secret word?")
        user.type_line("a 1")
        assert get_code(waiting.result(TIMEOUT)["result"]) is None
    with run_server(STDIO_STATELESS, tmp_path, settings=settings) as server:
        assert server.get_text("repeat", text="a secret word") == "a secret word"
        assert get_code(server.get_result("repeat", text="another")) == "approval_declined"
        (grant,) = json.loads(run("list", "--json", FILE, folder=tmp_path).stdout)
        assert (grant["tool"], grant["scope"]) == ("repeat", "always")
        listing = run("list", "--quiet", folder=tmp_path)
        assert (listing.stdout, listing.stderr, listing.returncode) == (grant["id"] + "\n", "", 0)
        listing = run("list", folder=tmp_path)
        assert "repeat" in listing.stdout
        assert "secret" not in listing.stdout
        assert run("revoke", grant["id"][:8], FILE, folder=tmp_path).stderr == "1 approval revoked\n"
        assert get_code(server.get_result("repeat", text="a secret word")) == "approval_declined"
    assert "no lasting approvals" in run("list", folder=tmp_path).stderr
    assert b"secret" not in (tmp_path / "kept.sqlite3").read_bytes()


@pytest.mark.parametrize(
    ("choice", "session"), [(ALWAYS, {}), (SESSION, {SESSION_KEY: "mine"})], ids=["always", "session"]
)
def test_a_decision_about_a_question_of_another_process_is_remembered_in_a_third(
    choice: str, session: dict[str, str], tmp_path: Path
) -> None:
    settings = build_settings(tmp_path)
    params: dict[str, Any] = {"name": "repeat", "arguments": {"text": "a"}}
    with run_server(STDIO_STATELESS, tmp_path, settings=settings, profile=ELICITATION_CLIENT) as first_process:
        questions = first_process.send_request("tools/call", params, session).result(TIMEOUT)["result"]
    responses = {"q1": {"action": "accept", "content": {"value": choice}}}
    retry = {**params, "inputResponses": responses, "requestState": questions["requestState"]}
    with run_server(STDIO_STATELESS, tmp_path, settings=settings, profile=ELICITATION_CLIENT) as second_process:
        assert get_code(second_process.send_request("tools/call", retry, session).result(TIMEOUT)["result"]) is None
    with run_server(STDIO_STATELESS, tmp_path, settings=settings, profile=ELICITATION_CLIENT) as third:
        result = third.send_request("tools/call", params, session).result(TIMEOUT)["result"]
        assert (result["resultType"], get_code(result)) == ("complete", None)
        another_call = {**params, "arguments": {"text": "b"}}
        result = third.send_request("tools/call", another_call, session).result(TIMEOUT)["result"]
        assert result["resultType"] == "input_required"
        # Only a lasting approval applies to other sessions.
        result = third.send_request("tools/call", params, {SESSION_KEY: "other"}).result(TIMEOUT)["result"]
        assert result["resultType"] == ("complete" if choice == ALWAYS else "input_required")
    how = [(line["decision"], line["how"]) for line in read_records(tmp_path / "audit.jsonl")]
    word = "always" if choice == ALWAYS else "session"
    assert how[:2] == [(word, "elicitation"), (word, "remembered")]
    assert len(json.loads(run("list", "--json", folder=tmp_path).stdout)) == 1


def test_with_state_in_memory_approvals_are_in_a_file_in_the_state_folder(tmp_path: Path) -> None:
    settings = build_settings(tmp_path, store="memory")
    homes = {"XDG_STATE_HOME": str(tmp_path)}
    with run_server(STDIO, tmp_path, settings=settings, env=homes, profile=ELICITATION_CLIENT) as server:
        waiting = server.send_call("repeat", text="a")
        question = wait_for_question(server)
        answer = {"action": "accept", "content": {"value": ALWAYS}}
        server.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})
        assert get_code(waiting.result(TIMEOUT)["result"]) is None
    assert len(list((tmp_path / "mcp-bridge").glob("*.sqlite3"))) == 1
    assert len(run("list", "--quiet", folder=tmp_path, **homes).stdout.splitlines()) == 1


def wait_for_question(server: Any) -> Any:
    """Wait for the first question of the server."""
    from tests.kits.waiting import wait_until

    return wait_until(
        lambda: [
            message_of_server
            for message_of_server in server.received
            if message_of_server.get("method") == "elicitation/create"
        ]
    )[0]


@pytest.mark.parametrize(
    ("approvals", "args", "message"),
    [
        ({"terminal": False}, [], "approvals.terminal: approvals in a terminal are switched off. Set it to true"),
        ({"remember": False}, ["list"], "approvals.remember: these settings remember no approvals. Set it to true"),
        ({}, ["revoke"], "revoke: no approval was selected. Pass the id of an approval, or use --all"),
        ({}, ["revoke", FILE], f"revoke: '{FILE}' is a file, not an id. Put the id before it, or use --all"),
        # An id and --all contradict each other, so neither is used.
        ({}, ["revoke", "abc", "--all", FILE], "no approval was selected"),
        ({"store": "memry"}, ["list"], "state.store: unknown store 'memry'. Known stores: memory, sqlite, "),
        ({}, ["list", "gate.py"], "gate.py: this is not a settings file. Pass the settings file that is served (.yaml"),
        ({}, ["list", "none.yaml"], "none.yaml"),
    ],
)
def test_commands_that_cannot_work_report_the_reason(
    approvals: Any, args: list[str], message: str, tmp_path: Path, run_here: RunHere
) -> None:
    (tmp_path / FILE).write_text(json.dumps(build_settings(tmp_path, **approvals)))
    code, err = run_here("approvals", *args)
    assert code == 2
    assert message in err


def test_unknown_and_ambiguous_ids_revoke_nothing(tmp_path: Path, run_here: RunHere) -> None:
    import anyio

    from mcp_bridge._policies.approvals.decisions import ApprovalSubject
    from mcp_bridge._policies.approvals.grants import GrantStore
    from mcp_bridge._storage.stores.sqlite import SqliteStore

    (tmp_path / FILE).write_text(json.dumps(build_settings(tmp_path)))
    assert run_here("approvals", "revoke", "abc")[0] == 3
    grants = GrantStore(SqliteStore(tmp_path / "kept.sqlite3"), bridge="mcp-bridge")
    for n in range(3):
        anyio.run(grants.add_grant, ApprovalSubject.for_call("repeat", {"n": n}, "?"), "always")
    assert "3 ids start with ''" in run_here("approvals", "revoke", "")[1]
    assert len(anyio.run(grants.list_grants)) == 3
    assert run_here("approvals", "revoke", "--all", FILE) == (0, "3 approvals revoked\n")
    assert run_here("approvals", "revoke", "--all")[0] == 0


@pytest.mark.parametrize("store_type", ["sqlite", "redis"])
def test_approvals_and_used_request_states_in_a_store_outlive_the_bridge(
    store_type: str,
    tmp_path: Path,
    redis_server: str,  # noqa: F811
) -> None:
    settings = build_settings(tmp_path, store=redis_server if store_type == "redis" else "sqlite:state.sqlite3")
    params: dict[str, Any] = {"name": "repeat", "arguments": {"text": "a"}}
    with run_server(STDIO_STATELESS, tmp_path, settings=settings, profile=ELICITATION_CLIENT) as first_process:
        questions = first_process.send_request("tools/call", params).result(TIMEOUT)["result"]
    params["inputResponses"] = {"q1": {"action": "accept", "content": {"value": ALWAYS}}}
    params["requestState"] = questions["requestState"]
    with run_server(STDIO_STATELESS, tmp_path, settings=settings, profile=ELICITATION_CLIENT) as second_process:
        assert get_code(second_process.send_request("tools/call", params).result(TIMEOUT)["result"]) is None
    with run_server(STDIO_STATELESS, tmp_path, settings=settings, profile=ELICITATION_CLIENT) as third:
        # The second process has used this request state, so this is a replay.
        retry = third.send_request("tools/call", params).result(TIMEOUT)
        assert retry["error"]["data"] == {"reason": "invalid_request_state"}
    assert [grant["tool"] for grant in json.loads(run("list", "--json", folder=tmp_path).stdout)] == ["repeat"]
    assert run("revoke", "--all", folder=tmp_path).stdout == ""
    assert json.loads(run("list", "--json", folder=tmp_path).stdout) == []
    assert not (tmp_path / "kept.sqlite3").exists()


@pytest.mark.parametrize(
    ("approvals", "message"),
    [
        ({"store": "memry"}, "state.store: unknown store 'memry'"),
        ({"remember": "30 days"}, "approvals.remember"),
    ],
)
def test_invalid_settings_are_rejected_with_their_line(
    approvals: Any, message: str, tmp_path: Path, run_here: RunHere
) -> None:
    options = json.dumps(build_settings(tmp_path, **{"remember": "30d", **approvals}), indent=1)
    (tmp_path / FILE).write_text(options)
    code, err = run_here("validate", FILE)
    key = next(iter(approvals))
    line = next(number for number, text in enumerate(options.splitlines(), 1) if f'"{key}"' in text)
    assert code == 2
    assert f"{FILE}:{line}: " in err
    assert message in err


@pytest.mark.parametrize("has_runtime_folder", [True, False])
def test_sockets_are_in_the_runtime_folder_of_the_user_else_in_the_state_folder(
    has_runtime_folder: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posix, "RUNTIME_FOLDER", tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    mine = tmp_path / str(os.getuid())
    if has_runtime_folder:
        mine.mkdir()
    socket_folder = policy.get_socket_folder(tmp_path / FILE)
    assert socket_folder.parent == (
        mine / "mcp-bridge" if has_runtime_folder else tmp_path / "state" / "mcp-bridge" / "sockets"
    )
    assert socket_folder != policy.get_socket_folder(tmp_path / "another.json")


@pytest.mark.parametrize("command", [["approvals", "list"], ["validate"]])
@pytest.mark.parametrize("store_type", ["damaged", "another"])
def test_a_file_that_is_not_a_store_is_reported_at_the_start(
    command: list[str], store_type: str, tmp_path: Path, run_here: RunHere
) -> None:
    (tmp_path / FILE).write_text(json.dumps(build_settings(tmp_path)))
    if store_type == "damaged":
        (tmp_path / "kept.sqlite3").write_bytes(b"no database at all" * 100)
    else:
        with contextlib.closing(sqlite3.connect(tmp_path / "kept.sqlite3")) as database:
            database.execute("CREATE TABLE mine (a)")
    before = (tmp_path / "kept.sqlite3").read_bytes()
    code, err = run_here(*command, FILE)
    assert code == 2
    assert "kept.sqlite3 is not a store of mcp-bridge" in err
    assert "Move it away" in err
    assert (tmp_path / "kept.sqlite3").read_bytes() == before


def test_listing_and_validating_open_no_socket(tmp_path: Path, run_here: RunHere) -> None:
    (tmp_path / FILE).write_text(json.dumps(build_settings(tmp_path)))
    for command in ("list", "validate"):
        assert run_here(command, FILE)[0] == 0
    assert not policy.get_socket_folder(tmp_path / FILE).exists()


LOST_NUMBER = 9
"""The number of a question whose bridge has stopped."""


class Answers:
    """Records the answers, and passes on all but those to the question LOST_NUMBER."""

    def __init__(self) -> None:
        self.choices: list[tuple[int, str]] = []

    async def answer_question(self, number: int, choice: str) -> bool:
        self.choices.append((number, choice))
        return number != LOST_NUMBER


def build_terminal(clock: ManualClock) -> tuple[ApprovalTerminal, Answers]:
    """Build a terminal, and the record of its answers."""
    terminal, answers = ApprovalTerminal(Path("nowhere"), clock), Answers()
    terminal.bridges = answers  # type: ignore[assignment]
    return terminal, answers


def build_question(number: int, *scopes: str, prompt: str = "Sure?") -> TerminalQuestion:
    """Build a question."""
    return TerminalQuestion(number, "shop (1)", "add", prompt, "{}", (*(scopes or ("once", "always")), "deny"))


async def test_an_answer_for_an_answered_question_does_not_answer_the_next_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = ManualClock()
    terminal, answers = build_terminal(clock)
    terminal.handle_message(build_question(1))
    terminal.handle_message(build_question(2))
    clock.now += MIN_READING_TIME + 1
    terminal.handle_message(QuestionUpdate(1, "elsewhere"))
    await terminal.read("y")
    assert answers.choices == []
    assert (
        "The request has only just appeared: read it and answer again, or answer with its number."
        in capsys.readouterr().err
    )
    clock.now += MIN_READING_TIME
    await terminal.read(" Y ")
    await terminal.read("n 2")
    assert answers.choices == [(2, "once"), (2, "deny")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("maybe", "Type y, s, a or n"),
        ("s", "[1] this answer is not possible here; y = once, a = always, n = no"),
        ("y 7", "No request has the number '7'. Pending: 1"),
        ("y x", "No request has the number 'x'"),
        ("y ²", "No request has the number '"),
        ("", "[1] shop (1) requests approval for tool 'add'"),
    ],
)
async def test_invalid_input_answers_no_question(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock()
    terminal, answers = build_terminal(clock)
    terminal.handle_message(build_question(1))
    clock.now += 1
    capsys.readouterr()
    await terminal.read(line)
    assert answers.choices == []
    assert message in capsys.readouterr().err


async def test_a_message_about_another_question_waits_until_the_one_on_the_screen_is_answered(
    capsys: pytest.CaptureFixture[str],
) -> None:
    terminal, _ = build_terminal(ManualClock())
    terminal.handle_message(build_question(1))
    terminal.handle_message(build_question(2))
    capsys.readouterr()
    terminal.handle_message(QuestionUpdate(2, "elsewhere"))
    assert capsys.readouterr().err == ""
    terminal.handle_message(QuestionUpdate(1, "withdrawn"))
    assert capsys.readouterr().err == "[1] no longer waiting for an answer\n[2] answered elsewhere\n"


async def test_an_answer_without_a_pending_question_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    terminal, _ = build_terminal(ManualClock())
    await terminal.read("y")
    assert "No request is pending." in capsys.readouterr().err


async def test_an_answer_to_a_stopped_bridge_is_reported_and_later_updates_are_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    terminal, _ = build_terminal(ManualClock())
    terminal.handle_message(build_question(LOST_NUMBER))
    await terminal.read(f"y {LOST_NUMBER}")
    assert f"[{LOST_NUMBER}] its bridge has stopped" in capsys.readouterr().err
    terminal.handle_message(QuestionUpdate(LOST_NUMBER, "withdrawn"))
    assert capsys.readouterr().err == ""


async def test_an_answer_that_the_bridge_does_not_accept_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    terminal, _ = build_terminal(ManualClock())
    terminal.handle_message(QuestionUpdate(1, "invalid"))
    assert "[1] this answer is not possible here" in capsys.readouterr().err


async def test_a_question_cannot_imitate_another_or_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    terminal, _ = build_terminal(ManualClock())
    terminal.handle_message(
        build_question(1, prompt="Sure?\n[2] shop (1) requests approval for tool 'harmless'\x1b[2J\u202e")
    )
    message = capsys.readouterr().err.splitlines()
    assert message[1:3] == ["  | Sure?", "  | [2] shop (1) requests approval for tool 'harmless'\\x1b[2J\\u202e"]
