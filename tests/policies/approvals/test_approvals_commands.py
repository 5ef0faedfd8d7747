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
from mcp_bridge._runtime import unix_sockets
from tests.kits.approvals.approvals_kit import ALWAYS, NAMED, SESSION, lines
from tests.kits.constants import TIMEOUT
from tests.kits.redis_server import redis_process, redis_server  # noqa: F401
from tests.kits.survival.survival_kit import Guest, Way, live

COMMAND = [sys.executable, "-m", "mcp_bridge"]
STDIO, STDIO_STATELESS, HTTP_STATELESS = Way("stdio", False), Way("stdio", True), Way("http", True)
PERSON = Guest(can={"elicitation": {"form": {}}})
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
CODE = "mcp-bridge/code"


def settings_in(folder: Path, *, store: str = "sqlite:kept.sqlite3", **approvals: Any) -> dict[str, Any]:
    """Return settings with a hook that asks about calls of `repeat`."""
    (folder / "gate.py").write_text(GATE)
    return {
        "sources": [{"type": "amplifier", "plan": {"tools": [{"module": "gate", "source": "gate.py"}]}}],
        "state": {**KEYS, "store": store},
        "approvals": {"audit": "audit.jsonl", **approvals},
    }


def code_of(result: dict[str, Any]) -> str | None:
    """The stable code of a failed result."""
    code: str | None = result["_meta"][CODE] if result.get("isError") else None
    return code


class Person:
    """Somebody at a terminal. `err` is what is on the screen."""

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

    def sees(self, text: str) -> None:
        """Wait until this is on the screen."""
        with self._more:
            assert self._more.wait_for(lambda: text in self.err, TIMEOUT), self.err

    def types(self, line: str) -> None:
        """Type a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def leaves(self, how: signal.Signals | None = None) -> int:
        """End it, by Ctrl-C or by the end of what is typed; the exit code."""
        assert self.process.stdin is not None
        if how is not None:
            self.process.send_signal(how)
        else:
            self.process.stdin.close()
        return self.process.wait(TIMEOUT)

    def close(self) -> None:
        """Leave nothing behind."""
        self.process.kill()
        self.process.wait()
        self._reader.join(TIMEOUT)
        for pipe in (self.process.stdin, self.process.stderr):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]


@contextlib.contextmanager
def somebody(folder: Path) -> Iterator[Person]:
    """Somebody at a terminal, connected to the bridge that runs."""
    person = Person(folder)
    try:
        person.sees("connected to mcp-bridge")
        yield person
    finally:
        person.close()


def run(*args: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command there."""
    return subprocess.run(
        [*COMMAND, "approvals", *args],
        cwd=folder, capture_output=True, text=True, timeout=TIMEOUT, env={**os.environ, **env},
    )  # fmt: skip


@pytest.fixture
def run_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunHere:
    """Run a command in this process, in `tmp_path`: its exit code, and what is on stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(logs, "configure_logging", lambda level, file=None: None)

    def run_here(*args: str) -> tuple[int, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as raised, report_errors():
            app(list(args))
        return int(raised.value.code or 0), capsys.readouterr().err

    return run_here


@pytest.mark.parametrize("way", [STDIO, HTTP_STATELESS], ids=str)
def test_a_user_at_a_terminal_decides_for_clients_that_cannot_ask(way: Way, tmp_path: Path) -> None:
    with live(way, tmp_path, settings=settings_in(tmp_path)) as server:
        assert code_of(server.result("repeat", text="before")) == "approval_declined"
        with somebody(tmp_path) as person:
            for number, (key, text) in enumerate([("y", "a"), ("n", "b"), ("always", "c")], start=1):
                waiting = server.call("repeat", text=text)
                person.sees(f"  | Repeat {text}?")
                person.types(f"{key} {number}")
                assert code_of(waiting.result(TIMEOUT)["result"]) == ("approval_declined" if key == "n" else None)
            assert server.text("repeat", text="c") == "c"
            assert person.leaves() == 0
        assert code_of(server.result("repeat", text="a")) == "approval_declined"
    found = [(line["decision"], line["how"]) for line in lines(tmp_path / "audit.jsonl")]
    assert found[1:5] == [("once", "terminal"), ("deny", "terminal"), ("always", "terminal"), ("always", "remembered")]
    assert found[0] == found[5] == ("deny", "default")


def test_top_shows_the_calls_of_a_bridge_over_stdio_at_its_private_socket(tmp_path: Path) -> None:
    with live(STDIO, tmp_path, settings=settings_in(tmp_path)) as server:
        top = subprocess.Popen([*COMMAND, "top", FILE], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        try:
            assert top.stdout is not None
            end = time.monotonic() + TIMEOUT
            while not select.select([top.stdout], [], [], 0.1)[0]:
                assert time.monotonic() < end
                assert code_of(server.result("repeat", text="a")) == "approval_declined"
            assert "approval_declined" in top.stdout.readline()
        finally:
            top.kill()
            top.communicate()


def test_of_two_users_the_first_answer_counts_and_ctrl_c_ends_both_commands(tmp_path: Path) -> None:
    with live(STDIO, tmp_path, settings=settings_in(tmp_path)) as server:
        with somebody(tmp_path) as one, somebody(tmp_path) as other:
            waiting = server.call("repeat", text="a")
            one.sees("  | Repeat a?")
            other.sees("  | Repeat a?")
            one.types("y 1")
            assert code_of(waiting.result(TIMEOUT)["result"]) is None
            other.sees("[1] answered elsewhere")
            assert one.leaves(signal.SIGINT) == other.leaves(signal.SIGINT) == 0
            assert "Traceback" not in one.err + other.err
        assert server.alive


def test_the_default_applies_if_the_user_leaves(tmp_path: Path) -> None:
    with live(STDIO, tmp_path, settings=settings_in(tmp_path)) as server, somebody(tmp_path) as person:
        waiting = server.call("repeat", text="a")
        person.sees("  | Repeat a?")
        person.process.kill()
        assert code_of(waiting.result(TIMEOUT)["result"]) == "approval_declined"


def test_a_user_who_leaves_gets_no_message_about_the_bridge(tmp_path: Path) -> None:
    with live(STDIO, tmp_path, settings=settings_in(tmp_path)) as server:
        with somebody(tmp_path) as person:
            waiting = server.call("repeat", text="a")
            person.sees("y = once")
            assert person.leaves(signal.SIGINT) == 0
        assert code_of(waiting.result(TIMEOUT)["result"]) == "approval_declined"
    assert "has ended" not in person.err


def test_the_command_ends_when_its_terminal_closes(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps(settings_in(tmp_path)))
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [*COMMAND, "approvals", FILE], cwd=tmp_path, stdin=theirs, stderr=subprocess.PIPE, start_new_session=True
    ) as person:
        os.close(theirs)
        assert person.stderr is not None
        assert person.stderr.readline().startswith(b"Waiting for approval requests")
        os.close(ours)
        assert person.wait(TIMEOUT) == 0


def test_the_command_connects_to_new_bridges_and_reports_stopped_ones(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    (tmp_path / FILE).write_text(json.dumps(settings))
    person = Person(tmp_path)
    try:
        person.sees("Waiting for approval requests")
        for number in (1, 2):
            with live(STDIO, tmp_path, settings=settings) as server:
                person.sees("connected to" if number == 1 else "[1] its bridge has stopped\nconnected to")
                server.call("repeat", text=f"text{number}")
                person.sees(f"  | Repeat text{number}?")
            person.sees(f"[{number}] its bridge has stopped")
    finally:
        person.close()


def test_a_lasting_approval_outlives_the_bridge_until_it_is_revoked(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    with live(STDIO, tmp_path, settings=settings) as server, somebody(tmp_path) as person:
        waiting = server.call("repeat", text="a secret word")
        person.sees("  | Repeat a secret word?")
        person.types("a 1")
        assert code_of(waiting.result(TIMEOUT)["result"]) is None
    with live(STDIO_STATELESS, tmp_path, settings=settings) as server:
        assert server.text("repeat", text="a secret word") == "a secret word"
        assert code_of(server.result("repeat", text="another")) == "approval_declined"
        (grant,) = json.loads(run("list", "--json", FILE, folder=tmp_path).stdout)
        assert (grant["tool"], grant["scope"]) == ("repeat", "always")
        shown = run("list", "--quiet", folder=tmp_path)
        assert (shown.stdout, shown.stderr, shown.returncode) == (grant["id"] + "\n", "", 0)
        shown = run("list", folder=tmp_path)
        assert "repeat" in shown.stdout
        assert "secret" not in shown.stdout
        assert run("revoke", grant["id"][:8], FILE, folder=tmp_path).stderr == "1 approval revoked\n"
        assert code_of(server.result("repeat", text="a secret word")) == "approval_declined"
    assert "no lasting approvals" in run("list", folder=tmp_path).stderr
    assert b"secret" not in (tmp_path / "kept.sqlite3").read_bytes()


@pytest.mark.parametrize(("choice", "session"), [(ALWAYS, {}), (SESSION, {NAMED: "mine"})], ids=["always", "session"])
def test_a_decision_about_a_question_of_another_process_is_remembered_in_a_third(
    choice: str, session: dict[str, str], tmp_path: Path
) -> None:
    settings = settings_in(tmp_path)
    params: dict[str, Any] = {"name": "repeat", "arguments": {"text": "a"}}
    with live(STDIO_STATELESS, tmp_path, settings=settings, guest=PERSON) as one:
        asked = one.ask("tools/call", params, session).result(TIMEOUT)["result"]
    answered = {"q1": {"action": "accept", "content": {"value": choice}}}
    again = {**params, "inputResponses": answered, "requestState": asked["requestState"]}
    with live(STDIO_STATELESS, tmp_path, settings=settings, guest=PERSON) as other:
        assert code_of(other.ask("tools/call", again, session).result(TIMEOUT)["result"]) is None
    with live(STDIO_STATELESS, tmp_path, settings=settings, guest=PERSON) as third:
        found = third.ask("tools/call", params, session).result(TIMEOUT)["result"]
        assert (found["resultType"], code_of(found)) == ("complete", None)
        for text, named in (("b", session), ("a", {NAMED: "other"})):
            params["arguments"] = {"text": text}
            found = third.ask("tools/call", params, named).result(TIMEOUT)["result"]
            wanted = "complete" if choice == ALWAYS and text == "a" else "input_required"
            assert found["resultType"] == wanted
    how = [(line["decision"], line["how"]) for line in lines(tmp_path / "audit.jsonl")]
    word = "always" if choice == ALWAYS else "session"
    assert how[:2] == [(word, "elicitation"), (word, "remembered")]
    assert len(json.loads(run("list", "--json", folder=tmp_path).stdout)) == 1


def test_with_state_in_memory_approvals_are_in_a_file_in_the_state_folder(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, store="memory")
    homes = {"XDG_STATE_HOME": str(tmp_path)}
    with live(STDIO, tmp_path, settings=settings, env=homes, guest=PERSON) as server:
        waiting = server.call("repeat", text="a")
        question = next_question(server)
        answer = {"action": "accept", "content": {"value": ALWAYS}}
        server.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})
        assert code_of(waiting.result(TIMEOUT)["result"]) is None
    assert len(list((tmp_path / "mcp-bridge").glob("*.sqlite3"))) == 1
    assert len(run("list", "--quiet", folder=tmp_path, **homes).stdout.splitlines()) == 1


def next_question(server: Any) -> Any:
    """The first question of the server."""
    from tests.kits.survival.isolation_live import eventually

    return eventually(lambda: [each for each in server.heard if each.get("method") == "elicitation/create"])[0]


@pytest.mark.parametrize(
    ("approvals", "args", "said"),
    [
        ({"terminal": False}, [], "approvals.terminal: approvals in a terminal are switched off. Set it to true"),
        ({"remember": False}, ["list"], "approvals.remember: these settings remember no approvals. Set it to true"),
        ({}, ["revoke"], "revoke: no approval was selected. Pass the id of an approval, or use --all"),
        ({}, ["revoke", FILE], f"revoke: '{FILE}' is a file, not an id. Put the id before it, or use --all"),
        ({}, ["revoke", "abc", "--all", FILE], "no approval was selected"),
        ({"store": "memry"}, ["list"], "state.store: unknown store 'memry'. Known stores: memory, sqlite, "),
        ({}, ["list", "gate.py"], "gate.py: approvals need a settings file. Pass the settings that are served"),
        ({}, ["list", "none.yaml"], "none.yaml"),
    ],
)
def test_commands_that_cannot_work_report_the_reason(
    approvals: Any, args: list[str], said: str, tmp_path: Path, run_here: RunHere
) -> None:
    (tmp_path / FILE).write_text(json.dumps(settings_in(tmp_path, **approvals)))
    code, err = run_here("approvals", *args)
    assert code == 2
    assert said in err


def test_unknown_and_ambiguous_ids_revoke_nothing(tmp_path: Path, run_here: RunHere) -> None:
    import anyio

    from mcp_bridge._policies.approvals.decisions import ApprovalSubject
    from mcp_bridge._policies.approvals.grants import GrantStore
    from mcp_bridge._storage.stores.sqlite import SqliteStore

    (tmp_path / FILE).write_text(json.dumps(settings_in(tmp_path)))
    assert run_here("approvals", "revoke", "abc")[0] == 3
    kept = GrantStore(SqliteStore(tmp_path / "kept.sqlite3"), bridge="mcp-bridge")
    for n in range(3):
        anyio.run(kept.add_grant, ApprovalSubject.for_call("repeat", {"n": n}, "?"), "always")
    assert "3 ids start with ''" in run_here("approvals", "revoke", "")[1]
    assert len(anyio.run(kept.list_grants)) == 3
    assert run_here("approvals", "revoke", "--all", FILE) == (0, "3 approvals revoked\n")
    assert run_here("approvals", "revoke", "--all")[0] == 0


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_state_in_a_store_outlives_the_bridge(
    kind: str,
    tmp_path: Path,
    redis_server: str,  # noqa: F811
) -> None:
    settings = settings_in(tmp_path, store=redis_server if kind == "redis" else "sqlite:state.sqlite3")
    params: dict[str, Any] = {"name": "repeat", "arguments": {"text": "a"}}
    with live(STDIO_STATELESS, tmp_path, settings=settings, guest=PERSON) as one:
        asked = one.ask("tools/call", params).result(TIMEOUT)["result"]
    params["inputResponses"] = {"q1": {"action": "accept", "content": {"value": ALWAYS}}}
    params["requestState"] = asked["requestState"]
    with live(STDIO_STATELESS, tmp_path, settings=settings, guest=PERSON) as other:
        assert code_of(other.ask("tools/call", params).result(TIMEOUT)["result"]) is None
    with live(STDIO_STATELESS, tmp_path, settings=settings, guest=PERSON) as third:
        again = third.ask("tools/call", params).result(TIMEOUT)
        assert again["error"]["data"] == {"reason": "invalid_request_state"}
    assert [grant["tool"] for grant in json.loads(run("list", "--json", folder=tmp_path).stdout)] == ["repeat"]
    assert run("revoke", "--all", folder=tmp_path).stdout == ""
    assert json.loads(run("list", "--json", folder=tmp_path).stdout) == []
    assert not (tmp_path / "kept.sqlite3").exists()


@pytest.mark.parametrize(
    ("approvals", "said"),
    [
        ({"store": "memry"}, "state.store: unknown store 'memry'"),
        ({"remember": "30 days"}, "approvals.remember"),
    ],
)
def test_invalid_settings_are_rejected_with_their_line(
    approvals: Any, said: str, tmp_path: Path, run_here: RunHere
) -> None:
    given = json.dumps(settings_in(tmp_path, **{"remember": "30d", **approvals}), indent=1)
    (tmp_path / FILE).write_text(given)
    code, err = run_here("validate", FILE)
    key = next(iter(approvals))
    line = next(number for number, text in enumerate(given.splitlines(), 1) if f'"{key}"' in text)
    assert code == 2
    assert f"{FILE}:{line}: " in err
    assert said in err


@pytest.mark.parametrize("there", [True, False])
def test_sockets_are_in_the_runtime_folder_of_the_user_else_in_the_state_folder(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix_sockets, "RUNTIME_FOLDER", tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    mine = tmp_path / str(os.getuid())
    if there:
        mine.mkdir()
    found = policy.get_socket_folder(tmp_path / FILE)
    assert found.parent == (mine / "mcp-bridge" if there else tmp_path / "state" / "mcp-bridge" / "sockets")
    assert found != policy.get_socket_folder(tmp_path / "another.json")


@pytest.mark.parametrize("command", [["approvals", "list"], ["validate"]])
@pytest.mark.parametrize("kind", ["damaged", "another"])
def test_a_file_that_is_not_a_store_is_reported_at_the_start(
    command: list[str], kind: str, tmp_path: Path, run_here: RunHere
) -> None:
    (tmp_path / FILE).write_text(json.dumps(settings_in(tmp_path)))
    if kind == "damaged":
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
    (tmp_path / FILE).write_text(json.dumps(settings_in(tmp_path)))
    for command in ("list", "validate"):
        assert run_here(command, FILE)[0] == 0
    assert not policy.get_socket_folder(tmp_path / FILE).exists()


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Answers:
    """Keeps what was answered."""

    def __init__(self) -> None:
        self.given: list[tuple[int, str]] = []

    async def answer_question(self, number: int, choice: str) -> bool:
        self.given.append((number, choice))
        return number != 9


def terminal(clock: Clock) -> tuple[ApprovalTerminal, Answers]:
    """A terminal whose answers are kept."""
    made, answers = ApprovalTerminal(Path("nowhere"), clock), Answers()
    made.bridges = answers  # type: ignore[assignment]
    return made, answers


def asked(number: int, *scopes: str, prompt: str = "Sure?") -> TerminalQuestion:
    """A question."""
    return TerminalQuestion(number, "shop (1)", "add", prompt, "{}", (*(scopes or ("once", "always")), "deny"))


async def test_an_answer_for_a_settled_question_does_not_answer_the_next_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    made, answers = terminal(clock)
    made.handle_message(asked(1))
    made.handle_message(asked(2))
    clock.now += MIN_READING_TIME + 1
    made.handle_message(QuestionUpdate(1, "another"))
    await made.read("y")
    assert answers.given == []
    assert (
        "The request has only just appeared: read it and answer again, or answer with its number."
        in capsys.readouterr().err
    )
    clock.now += MIN_READING_TIME
    await made.read(" Y ")
    await made.read("n 2")
    assert answers.given == [(2, "once"), (2, "deny")]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("maybe", "Type y, s, a or n"),
        ("s", "[1] this answer is not possible here; y = once, a = always, n = no"),
        ("y 7", "No request has the number '7'. Pending: 1"),
        ("y x", "No request has the number 'x'"),
        ("y ²", "No request has the number '"),
        ("", "[1] shop (1) requests approval for tool 'add'"),
    ],
)
async def test_invalid_input_answers_no_question(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    made, answers = terminal(clock)
    made.handle_message(asked(1))
    clock.now += 1
    capsys.readouterr()
    await made.read(line)
    assert answers.given == []
    assert said in capsys.readouterr().err


async def test_an_answer_without_a_pending_question_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    made, _ = terminal(Clock())
    await made.read("y")
    made.handle_message(asked(9))
    await made.read("y 9")
    made.handle_message(QuestionUpdate(9, "withdrawn"))
    made.handle_message(QuestionUpdate(9, "unfit"))
    said = capsys.readouterr().err
    assert "No request is pending." in said
    assert "[9] its bridge has stopped" in said
    assert "withdrawn" not in said


async def test_a_question_cannot_imitate_another_or_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    made, _ = terminal(Clock())
    made.handle_message(asked(1, prompt="Sure?\n[2] shop (1) requests approval for tool 'harmless'\x1b[2J\u202e"))
    said = capsys.readouterr().err.splitlines()
    assert said[1:3] == ["  | Sure?", "  | [2] shop (1) requests approval for tool 'harmless'\\x1b[2J\\u202e"]
