"""A second signal ends the server at once; early, late and repeated signals end it too."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.server_process import Way
from tests.kits.constants import ENVELOPE, TIMEOUT
from tests.kits.survival.ending_kit import (
    CLOSED,
    LONG,
    SIGNALS,
    TOOLS,
    assert_clean_exit,
    begin_call,
    end_server,
    release_tools,
    run_ending_server,
    wait_for_code,
    wait_for_text,
    wait_until_draining,
)
from tests.kits.survival.survival_kit import FIRST_WAY, ON_BOTH_WAYS, SECOND_WAY, on_one_way, run_server
from tests.kits.waiting import wait_until

COMMAND = [sys.executable, "-m", "mcp_bridge", "serve"]
SLOW_IMPORT = """
import sys, time
print("importing", file=sys.stderr, flush=True)
for _ in range(1000):
    try:
        time.sleep(0.1)
    except {caught}:
        print("caught", file=sys.stderr, flush=True)
"""
SLOW_EXIT = """
import atexit, sys, time
from mcp_bridge import tool

@atexit.register
def slow():
    print("leaving", file=sys.stderr, flush=True)
    time.sleep(1000)

@tool
def there() -> str:
    return "there"
"""


@on_one_way("how", ["SIGTERM"], smoke=["SIGINT"])
def test_a_second_signal_cancels_the_calls_in_flight_and_their_clients_get_errors(
    way: Way, how: str, tmp_path: Path
) -> None:
    with run_ending_server(way, tmp_path) as server:
        answers = [begin_call(server, tool, tool) for tool in ("for_ever", "thread_for_ever")]
        end_server(server, how)
        wait_until_draining(server)
        end_server(server, how)
        assert [wait_for_code(answer) for answer in answers] == [CLOSED, CLOSED]
        assert_clean_exit(server)


@on_one_way("tool", ["stubborn", "loop_for_ever"], smoke=["loop_for_ever"])
def test_a_second_signal_ends_even_calls_that_ignore_cancellation(way: Way, tool: str, tmp_path: Path) -> None:
    with run_ending_server(way, tmp_path) as server:
        begin_call(server, tool, tool)
        server.signal(signal.SIGTERM)
        # The second signal is another one, because two equal ones may arrive as one.
        server.signal(signal.SIGINT)
        assert server.wait() == 0


def test_a_third_signal_ends_on_the_spot(tmp_path: Path) -> None:
    with run_ending_server(FIRST_WAY, tmp_path) as server:
        begin_call(server, "loop_for_ever", "loop")
        for how in SIGNALS:
            end_server(server, how)
        assert server.wait() == 0


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT"])
def test_a_signal_after_the_end_of_input_counts_as_the_second_one(how: str, tmp_path: Path) -> None:
    with run_ending_server(FIRST_WAY, tmp_path, options=("--log-level", "info")) as server:
        answer = begin_call(server, "for_ever", "call")
        server.close_input()
        server.wait_for_stderr("input has ended")
        end_server(server, how)
        assert wait_for_code(answer) == CLOSED
        assert_clean_exit(server)


@on_one_way("how", ["SIGTERM"], smoke=["SIGINT"])
def test_signals_without_end_are_still_a_good_end(way: Way, how: str, tmp_path: Path) -> None:
    with run_ending_server(way, tmp_path) as server:
        begin_call(server, "thread_for_ever", "call")
        until = time.monotonic() + TIMEOUT
        while server.is_running and time.monotonic() < until:
            end_server(server, how)
        assert server.wait() == 0


def test_a_signal_while_the_interpreter_leaves_ends_it(tmp_path: Path) -> None:
    with run_server(FIRST_WAY, tmp_path, SLOW_EXIT) as server:
        assert server.get_text("there") == "there"
        server.signal(signal.SIGTERM)
        server.wait_for_stderr("leaving")
        server.signal(signal.SIGTERM)
        assert server.wait() == 0


@pytest.mark.parametrize(
    ("how", "options"),
    [("SIGTERM", ()), ("SIGINT", ()), ("SIGHUP", ("--http", "127.0.0.1:0"))],
    ids=["SIGTERM-stdio", "SIGINT-stdio", "SIGHUP-http"],
)
def test_a_signal_while_tools_are_imported_ends_the_start(how: str, options: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(SLOW_IMPORT.format(caught="ArithmeticError"))
    with start_server(tmp_path, *options) as server:
        server.wait_for_stderr("importing\n")
        server.process.send_signal(getattr(signal, how))
        assert server.wait() == 0
        assert server.stderr == "importing\n"


def test_tools_that_catch_the_first_signal_at_import_do_not_catch_the_second(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(SLOW_IMPORT.format(caught="BaseException"))
    with start_server(tmp_path) as server:
        server.wait_for_stderr("importing\n")
        server.process.send_signal(signal.SIGTERM)
        server.wait_for_stderr("caught")
        server.process.send_signal(signal.SIGTERM)
        assert server.wait() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="needs the supervisor around the server")
def test_a_second_signal_ends_an_import_that_never_returns_to_python(tmp_path: Path) -> None:
    # The import holds the GIL, so no thread can forward what it writes to stderr: it creates a file instead.
    (tmp_path / "tools.py").write_text("import pathlib\npathlib.Path('importing').touch()\nsum(range(10**15))")
    with start_server(tmp_path) as server:
        wait_until((tmp_path / "importing").exists)
        server.process.send_signal(signal.SIGTERM)
        # The second signal is another one, because two equal ones may arrive as one.
        server.process.send_signal(signal.SIGINT)
        assert server.wait() == -signal.SIGKILL


def test_a_signal_before_any_request_is_a_good_end(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS.read_text() + "\nsay('imported')\n")
    with start_server(tmp_path) as server:
        server.wait_for_stderr("imported\n")
        server.process.send_signal(signal.SIGINT)
        assert server.wait() == 0
        assert server.stderr == "imported\n"


@ON_BOTH_WAYS
def test_sigpipe_changes_nothing(way: Way, tmp_path: Path) -> None:
    with run_ending_server(way, tmp_path) as server, server.keep_call_in_flight():
        os.kill(server.pid, signal.SIGPIPE)
        assert server.get_text("echo", text="there") == "there"


def test_sighup_stays_ignored_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS.read_text())
    with start_server(tmp_path, before=["/bin/sh", "-c", 'trap "" HUP; exec "$@"', "sh"]) as server:
        server.send_request("waits", "call")
        server.wait_for_stderr("begun call")
        server.process.send_signal(signal.SIGHUP)
        server.send_request("waits", "other")
        server.wait_for_stderr("begun other")
        (tmp_path / "go").touch()
        assert {server.line()["result"]["content"][0]["text"] for _ in range(2)} == {"done call", "done other"}


def test_the_server_does_not_wait_for_a_client_that_died(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS.read_text())
    with start_server(tmp_path) as server:
        server.send_request("for_ever", "call")
        server.wait_for_stderr("begun call")
        server.close("stdout")
        server.close("stdin")
        assert server.wait() == 0
        assert "ended call" in server.stderr


def test_a_client_that_stops_reading_is_noticed_by_the_first_response(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS.read_text())
    with start_server(tmp_path) as server:
        for tool in ("waits", "for_ever"):
            server.send_request(tool, tool)
            server.wait_for_stderr(f"begun {tool}")
        server.close("stdout")
        (tmp_path / "go").touch()
        assert server.wait() == 0
        assert "ended for_ever" in server.stderr


def test_a_closed_stderr_costs_no_response(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS.read_text().replace("def say(words: str)", QUIET))
    with start_server(tmp_path) as server:
        server.send_request("waits", "call")
        wait_until((tmp_path / "said").exists)
        server.close_stderr()
        server.send_request("fails", "loudly")
        assert server.line()["result"]["isError"]
        server.send_request("waits", "other")
        wait_until(lambda: "other" in (tmp_path / "said").read_text())
        server.process.send_signal(signal.SIGTERM)
        (tmp_path / "go").touch()
        assert {server.line()["result"]["content"][0]["text"] for _ in range(2)} == {"done call", "done other"}
        assert server.wait() == 0


QUIET = """def say(words: str) -> None:
    with open("said", "a") as file:
        file.write(words)


@tool
def fails(name: str) -> None:
    raise ValueError(name)  # told on stderr


def once(words: str)"""

PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-m", "mcp_bridge", "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdin.write(sys.argv[1].encode() + b"\\n")
child.stdin.flush()
print(child.pid, flush=True)
time.sleep(1000)
"""


def test_a_server_does_not_outlive_a_parent_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS.read_text())
    err = tmp_path / "err"
    with (
        err.open("wb") as stderr,
        subprocess.Popen(
            [sys.executable, "-c", PARENT, make_call_line(1, "for_ever", "call")],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=stderr,
        ) as parent,
    ):
        assert parent.stdout is not None
        number = int(parent.stdout.readline())
        wait_until(lambda: "begun call" in err.read_text())
        parent.kill()
        wait_until(lambda: not is_running(number))
    assert "ended call" in err.read_text()


def is_running(number: int) -> bool:
    """Return whether a process runs, a child or not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def make_call_line(number: int, tool: str, name: str) -> str:
    """Return the line of a stateless call."""
    params = {"name": tool, "arguments": {"name": name}, "_meta": ENVELOPE}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})


class Bare:
    """A process with pipes that tests can close."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        (folder / "mcp-bridge.json").write_text(
            json.dumps({"limits": {"drain": LONG}, "sources": [{"type": "python", "path": "tools.py"}]})
        )
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self.process.stderr is not None
        os.set_blocking(self.process.stderr.fileno(), False)
        self._stderr = b""
        self._number = 0

    @property
    def stderr(self) -> str:
        """All output on stderr."""
        stream = self.process.stderr
        if stream is not None and not stream.closed:
            self._stderr += stream.read() or b""
        return self._stderr.decode()

    def wait_for_stderr(self, words: str) -> None:
        """Wait until stderr contains these words."""
        wait_until(lambda: words in self.stderr)

    def send_request(self, tool: str, name: str) -> None:
        """Send a call."""
        self._number += 1
        assert self.process.stdin is not None
        self.process.stdin.write(make_call_line(self._number, tool, name).encode() + b"\n")
        self.process.stdin.flush()

    def line(self) -> dict[str, Any]:
        """Return the next message on stdout."""
        assert self.process.stdout is not None
        message: dict[str, Any] = json.loads(self.process.stdout.readline())
        return message

    def close(self, name: str) -> None:
        """Close our end of a pipe."""
        getattr(self.process, name).close()

    def close_stderr(self) -> None:
        """Close the pipe of stderr."""
        self.close("stderr")

    def wait(self, within: float = TIMEOUT) -> int:
        """Wait for its end; the exit code."""
        return self.process.wait(within)


@contextlib.contextmanager
def start_server(folder: Path, *options: str, before: list[str] | None = None) -> Iterator[Bare]:
    """Start a server with the tools in a folder, and end it after the block."""
    server = Bare(folder, [*(before or []), *COMMAND, *options])
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()
        for stream in (server.process.stdin, server.process.stdout, server.process.stderr):
            with contextlib.suppress(OSError):
                assert stream is not None
                stream.close()


def test_the_drain_time_is_that_of_the_settings(tmp_path: Path) -> None:
    with run_ending_server(SECOND_WAY, tmp_path, 1.5) as server:
        answers = [begin_call(server, tool, tool) for tool in ("waits", "for_ever")]
        server.signal(signal.SIGTERM)
        wait_until_draining(server)
        began = time.monotonic()
        release_tools(server)
        assert wait_for_text(answers[0]) == "done waits"
        assert wait_for_code(answers[1]) == CLOSED
        # The server did not hurry.
        assert time.monotonic() - began > 0.3
        assert_clean_exit(server)
