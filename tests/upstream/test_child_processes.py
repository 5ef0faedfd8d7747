"""Servers as child processes: their environment, their process group, and their end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS
from tests.kits.processes.processes_kit import find_processes, get_command, make_token, wait_until_gone
from tests.kits.upstream.upstream_kit import call_text, run_source, write_command, write_settings

USUAL = {"HOME", "PATH", "LANG", "LC_ALL", "TERM", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "SYSTEMROOT"}
OWN = {"LC_CTYPE"}
"""What Python sets by itself."""
HELLO = [
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {},
     "clientInfo": {"name": "a test", "version": "1"}}},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
]  # fmt: skip


@pytest.mark.anyio
async def test_a_server_gets_only_the_usual_variables_and_those_of_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    async with run_source(write_command(env={"OWN": "1", "LANG": "xx"}), tmp_path) as (_, client):
        reply = json.loads(await call_text(client, "echo", "environment"))
    assert reply.pop("OWN") == "1"
    assert reply.pop("LANG") == "xx"
    assert set(reply) <= USUAL | OWN
    assert all(os.environ[name] == value for name, value in reply.items() if name not in OWN)
    assert {"HOME", "PATH"} <= set(reply)


@pytest.mark.anyio
async def test_a_server_is_not_in_the_process_group_of_the_bridge(tmp_path: Path) -> None:
    async with run_source(write_command(), tmp_path) as (_, client):
        reply = json.loads(await call_text(client, "echo", "process"))
    assert reply["group"] not in {os.getpgid(0), reply["pid"]}


@pytest.mark.anyio
@pytest.mark.parametrize("fault", ["", "family", "stubborn"])
@BOTH_LOOPS
async def test_a_server_ends_with_the_bridge(fault: str, tmp_path: Path, anyio_backend: str) -> None:
    token = make_token()
    async with run_source(write_command(fault, token), tmp_path) as (_, client):
        await call_text(client, "echo")
        assert len(find_processes(token)) >= 2
    assert find_processes(token) == []


@pytest.mark.anyio
@BOTH_LOOPS
async def test_a_server_can_finish_its_output_when_it_ends(tmp_path: Path, anyio_backend: str) -> None:
    entry = write_command("writes at the end", str(tmp_path / "done"))
    async with run_source(entry, tmp_path) as (_, client):
        await call_text(client, "echo")
    assert (tmp_path / "done").read_text() == "done"


@pytest.mark.anyio
async def test_processes_of_a_server_end_before_it_is_started_again(tmp_path: Path) -> None:
    token = make_token()
    async with run_source(write_command("family", token), tmp_path) as (_, client):
        before = set(find_processes(token))
        await call_text(client, "echo", "crash")
        assert await call_text(client, "echo") == "hello"
        assert before.isdisjoint(find_processes(token))
        assert len(find_processes(token)) == len(before)


@contextmanager
def serve(folder: Path, fault: str, token: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Serve one server, and yield once its tools are listed."""
    settings = write_settings(folder, {"server": write_command(fault, token)})
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(get_command(str(settings), *options), **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in HELLO))
        process.stdin.flush()
        while b"server__echo" not in process.stdout.readline():
            pass
        try:
            yield process
        finally:
            process.kill()


def find_bridge(process: subprocess.Popen[bytes], options: tuple[str, ...]) -> int:
    """Return the process id of the bridge below its supervisors."""
    if options:
        return process.pid
    (reaper,) = psutil.Process(process.pid).children()
    (bridge,) = reaper.children()
    return bridge.pid


@pytest.mark.parametrize("options", [(), ("--no-guard",)], ids=["supervised", "alone"])
@pytest.mark.parametrize("fault", ["", "family", "stubborn"])
def test_a_server_ends_with_a_bridge_that_is_killed(fault: str, options: tuple[str, ...], tmp_path: Path) -> None:
    token = make_token()
    with serve(tmp_path, fault, token, *options) as process:
        assert len(find_processes(token)) >= 2
        os.kill(find_bridge(process, options), signal.SIGKILL)
        wait_until_gone(token)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stubborn_server_ends_with_a_bridge_that_is_terminated(number: int, tmp_path: Path) -> None:
    token = make_token()
    with serve(tmp_path, "stubborn", token) as process:
        process.send_signal(number)
        wait_until_gone(token)
        assert process.wait(TIMEOUT) == 0


def test_a_stubborn_server_ends_with_the_input_of_the_bridge(tmp_path: Path) -> None:
    token = make_token()
    with serve(tmp_path, "stubborn", token) as process:
        assert process.stdin is not None
        process.stdin.close()
        wait_until_gone(token)
        assert process.wait(TIMEOUT) == 0
